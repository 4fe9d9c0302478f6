# Needs Python 3.11+, git and make. Everything else goes into .venv beside this file.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-

.PHONY: demo test check clean

demo: $(STAMP)report  ## ingest, attribute, predict, diff and report on sample_traces
	$(BIN)/python sample_traces/demo.py --tool $(BIN)/tracetool --out demo

test: $(STAMP)dev  ## run the tests
	$(BIN)/python -m pytest -n auto

check: $(STAMP)dev  ## format, lint, types and import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(STAMP)%: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) demo build dist
