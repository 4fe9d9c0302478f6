# Needs Python 3.11 or newer, git and make. Everything else goes into .venv beside this file.
# Another interpreter: make demo PYTHON=python3.12
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-
OUT ?= demo
FUZZ ?= 5000
FUZZ_FROM ?= 0
KILLS ?= 200
SUITES ?= bookworm sid
TESTS ?=
MUTANTS ?= 300
PYTHONS ?= $(PYTHON)
RESOLUTIONS ?= highest lowest-direct

.DEFAULT_GOAL := help
.PHONY: help demo test planted fuzz faults mutants wheel fresh site bench sbom audit check clean

help:
	@echo "make demo    run the main job on sample_traces; ends with the path of a report"
	@echo "make test    run the tests"
	@echo "make fuzz    the nightly tests: every format's samples changed in FUZZ ways (default 5000;"
	@echo "             hours), and one number per word over every measured trace"
	@echo "make planted a waste of known joules in each of 15 runs: named first, every printed number computed again"
	@echo "make faults  kill -9 at random points of every command that writes (KILLS, default 200), full disks,"
	@echo "             missing rights, vanishing inputs, clock jumps"
	@echo "make mutants change the code in MUTANTS places (default 300) and see whether its tests notice"
	@echo "make wheel   build wheel and sdist, install and use them outside the checkout (PYTHONS, RESOLUTIONS)"
	@echo "make fresh   make demo, make test and the wheel in Debian roots with nothing else (SUITES, TESTS; needs root)"
	@echo "make site    the documentation as a site, its links checked"
	@echo "make bench   speed and memory beside other tools on the same inputs"
	@echo "make sbom    a CycloneDX list of what is installed; make audit asks the advisories for it"
	@echo "make check   format, lint, types and import rules"
	@echo "make clean   remove what these made"

demo: $(STAMP)plain
	@$(BIN)/python sample_traces/demo.py --tool $(BIN)/tracetool --out $(OUT)

test: $(STAMP)dev
	$(BIN)/python -m pytest -n auto --dist worksteal
	@echo "All tests passed. To see the tool at work: make demo"

fuzz: $(STAMP)dev
	TRACETOOL_FUZZ=$(FUZZ) TRACETOOL_FUZZ_FROM=$(FUZZ_FROM) $(BIN)/python -m pytest -n auto --dist worksteal tests/damaged -k 'fuzz or changed'
	TRACETOOL_RANDOM=1 $(BIN)/python -m pytest -n auto --dist worksteal --ignore tests/damaged
	TRACETOOL_TRACE_BYTES=1000000000 $(BIN)/python -m pytest -p no:xdist --timeout 3000 tests/api/test_one_number.py tests/report/test_power_limit.py tests/report/test_export_real.py

planted: $(STAMP)dev
	TRACETOOL_PLANTED=1 $(BIN)/python -m pytest -p no:xdist tests/replay/test_diagnosis.py

faults: $(STAMP)dev
	$(BIN)/python nightly/faults.py --kills $(KILLS)

mutants: $(STAMP)dev $(STAMP)mutants
	$(BIN)/python nightly/mutants.py --sample $(MUTANTS) --results mutants.jsonl

wheel: $(STAMP)release
	$(BIN)/python nightly/install.py --tests --python $(PYTHONS) --resolution $(RESOLUTIONS)

fresh: $(STAMP)release
	$(BIN)/python nightly/fresh_machine.py --suite $(SUITES) --tests $(TESTS)

site: $(STAMP)docs
	$(BIN)/python docs/site.py

bench: $(STAMP)dev
	$(BIN)/python nightly/bench.py

sbom: $(STAMP)release
	$(BIN)/cyclonedx-py environment $(BIN)/python --pyproject pyproject.toml --output-reproducible -o sbom.json
	@echo sbom.json

audit: $(STAMP)release
	$(BIN)/python nightly/audit.py

check: $(STAMP)dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(STAMP)%: PARTS = '.$(if $(filter-out plain,$*),[$*])'
$(STAMP)%: pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or newer is needed (make PYTHON=/path/to/python3)" >&2; exit 3; }
	@echo "Installing into $(VENV) (a quarter of a minute to a minute the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "error: $(PYTHON) cannot make a virtual environment (Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 3; }
# uv takes a tenth of pip's time; where it cannot be had or does not know the machine's mirrors, pip does it.
	@{ $(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.5' && \
		$(BIN)/uv pip install --quiet --python $(BIN)/python -e $(PARTS); } >/dev/null 2>&1 || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e $(PARTS)
	@touch $@

clean:
	rm -rf .venv .ci-venv demo build dist site sbom.json mutants.jsonl .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
