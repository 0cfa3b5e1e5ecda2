# Each target sets up what it needs; what is set up already is not set up again.
PYTHON ?= $(firstword $(foreach p,python3 python3.13 python3.12 python3.11,$(shell $(p) -c 'import sys; print("$(p)") if (3, 11) <= sys.version_info[:2] < (3, 14) else None' 2>/dev/null | grep -v None)))
VENV ?= .venv
BIN := $(VENV)/bin
RUN ?=
CASES ?=
OUTPUT ?=

.PHONY: help setup train test test-slow benchmark check format clean

help:
	@echo "make setup      make $(VENV) and install minigpt in it"
	@echo "make train      train the default configuration, show samples, export"
	@echo "make test       the quick tests"
	@echo "make test-slow  the others"
	@echo "make benchmark  minigpt beside what people use: over an hour; CASES=\"a b\" for some, OUTPUT=FILE for JSON"
	@echo "                (on Linux, install the CPU's torch first: README, How fast)"
	@echo "make check      ruff and mypy"

setup: $(VENV)/.installed

# The constraints pin what is installed, and what builds the package too: hence the variable.
$(VENV)/.installed: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "minigpt needs Python 3.11, 3.12 or 3.13, and finds none; name one with make PYTHON=..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@

train: setup
	@$(BIN)/minigpt train $(if $(RUN),--run $(RUN))

test: setup
	@$(BIN)/pytest -n 2 --dist loadgroup --max-worker-restart 0

test-slow: setup
	@$(BIN)/pytest -m slow -n 2 --dist loadgroup --max-worker-restart 0

# Its packages are several times the size of the others: only who measures needs them.
$(VENV)/.benchmark: $(VENV)/.installed
	PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install --quiet --editable '.[benchmark]'
	@touch $@

benchmark: setup $(VENV)/.benchmark
	@$(BIN)/python scripts/benchmark.py $(CASES) $(if $(OUTPUT),--output $(OUTPUT))

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: setup
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	rm -rf $(VENV)
