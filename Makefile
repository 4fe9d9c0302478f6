# Needs Python 3.11 or newer, git and make. Everything else goes into .venv beside this file.
# Another interpreter: make demo PYTHON=python3.12
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-
OUT ?= demo
FUZZ ?= 5000

.DEFAULT_GOAL := help
.PHONY: help demo test fuzz check clean

help:
	@echo "make demo    run the main job on sample_traces; ends with the path of a report"
	@echo "make test    run the tests"
	@echo "make fuzz    the nightly tests: every format's samples changed in FUZZ ways (default 5000;"
	@echo "             hours), and one number per word over every measured trace"
	@echo "make check   format, lint, types and import rules"
	@echo "make clean   remove what these made"

demo: $(STAMP)report
	@$(BIN)/python sample_traces/demo.py --tool $(BIN)/tracetool --out $(OUT)

test: $(STAMP)dev
	$(BIN)/python -m pytest -n auto --dist worksteal
	@echo "All tests passed. To see the tool at work: make demo"

fuzz: $(STAMP)dev
	TRACETOOL_FUZZ=$(FUZZ) $(BIN)/python -m pytest -n auto --dist worksteal tests/damaged -k fuzz
	TRACETOOL_TRACE_BYTES=1000000000 $(BIN)/python -m pytest -p no:xdist --timeout 3000 tests/api/test_one_number.py tests/report/test_power_limit.py

check: $(STAMP)dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(STAMP)%: pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or newer is needed (make PYTHON=/path/to/python3)" >&2; exit 3; }
	@echo "Installing into $(VENV) (about a minute the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "error: $(PYTHON) cannot make a virtual environment (Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 3; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	@touch $@

clean:
	rm -rf .venv .ci-venv demo build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
