# Each target installs what it needs, once.
PYTHON ?= $(firstword $(foreach p,python3 python3.13 python3.12 python3.11,$(shell $(p) -c 'import sys; print("$(p)") if (3, 11) <= sys.version_info[:2] < (3, 14) else None' 2>/dev/null | grep -v None)))
VENV ?= .venv
BIN := $(VENV)/bin
RUN ?=
CASES ?=
OUTPUT ?=
RELEASE ?=
MARKS ?= browser

.PHONY: help setup train page gallery docs docs-images test test-slow test-browser benchmark check format release clean

help:
	@echo "make setup      create $(VENV) and install minigpt into it: what 'make train' needs (0.7 GB to download)"
	@echo "make train      train the default configuration; RUN=DIR sets the run directory, MINUTES=1 the time"
	@echo "make page       write the page of the default model, page.html; train it first if RUN (runs/page) does not exist"
	@echo "make gallery    train six small models and show them on gallery/index.html, in about 40 minutes; MINUTES=5 for each"
	@echo "make test       run the quick tests; this and the targets below install what they need (the first: 0.2 GB more)"
	@echo "make test-slow  run the slow tests"
	@echo "make test-browser  open pages in Chromium and Firefox, if they are installed"
	@echo "make docs       build the documentation as a site, site/; OUTPUT=FOLDER writes it elsewhere"
	@echo "make docs-images  draw the pictures of the documents from the run RUN (runs/page), in the system's Chromium"
	@echo "make check      run ruff and mypy"
	@echo "make format     fix and format the code with ruff"
	@echo "make benchmark  compare minigpt with other libraries: takes over two hours; CASES=\"a b\" runs some cases,"
	@echo "                OUTPUT=FILE writes JSON (on Linux, first install torch for CPU: docs/performance.md)"
	@echo "make release    check, test, and build what is published into dist; RELEASE=--draft checks only what it builds"
	@echo "make clean      remove $(VENV)"
	@echo "PYTHON=... chooses the Python for $(VENV): 3.11, 3.12 or 3.13"

# The variable applies the constraints to the packages that build minigpt, too.
INSTALL = PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install --quiet --editable

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "minigpt needs Python 3.11, 3.12 or 3.13, and none was found; choose one with make PYTHON=..." >&2; exit 2; }
	@echo "Installing minigpt and TensorFlow into $(VENV): 0.7 GB to download, which takes some minutes."
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) .
	@touch $@
	@echo "Installed. After 'source $(VENV)/bin/activate', the command minigpt says what to do first."

# $(VENV)/.dev: the packages of the extra `dev`.
$(VENV)/.%: $(VENV)/.installed
	$(INSTALL) '.[$*]'
	@touch $@

train: setup
	@$(BIN)/minigpt train $(if $(RUN),--run $(RUN)) $(if $(MINUTES),--set training.max_minutes=$(MINUTES))

page: RUN := $(or $(RUN),runs/page)
page: setup
	@test -f $(RUN)/model.gguf || $(BIN)/minigpt train --run $(RUN)
	@$(BIN)/minigpt export $(RUN) --format html --output page.html
	@echo "Open page.html in a browser."

# Not --quiet: warnings would not be counted. The variable turns off a notice about later versions of MkDocs.
docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir $(or $(OUTPUT),site)
	@echo "To read it: $(BIN)/python -m http.server --directory $(or $(OUTPUT),site), then open http://localhost:8000"

# Chess needs an extra.
gallery: $(VENV)/.dev
	@$(BIN)/python scripts/make_gallery.py $(if $(MINUTES),--minutes $(MINUTES))

docs-images: $(VENV)/.browser
	@$(BIN)/python scripts/make_docs_images.py $(or $(RUN),runs/page)

PYTEST = $(BIN)/pytest -n 2 --dist worksteal --max-worker-restart 0

# Three sessions, because the memory of a worker grows: TensorFlow keeps what it has compiled.
MODELS = tests/generation tests/models tests/training

test: $(VENV)/.dev
	@status=0; \
	$(PYTEST) tests/targets || status=1; \
	$(PYTEST) $(MODELS) || status=1; \
	$(PYTEST) tests --ignore=tests/targets $(MODELS:%=--ignore=%) || status=1; \
	exit $$status

test-slow: $(VENV)/.dev
	@$(PYTEST) -m 'slow and not browser'

# In one process: the tests share the browsers.
test-browser: $(VENV)/.dev $(VENV)/.browser
	@$(BIN)/pytest -rs -m '$(MARKS)' tests/browser

benchmark: $(VENV)/.benchmark
	@$(BIN)/python scripts/benchmark.py $(CASES) $(if $(OUTPUT),--output $(OUTPUT))

check: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(VENV)/.dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

release: $(VENV)/.dev $(VENV)/.release
	@$(BIN)/python scripts/release.py $(RELEASE)

clean:
	rm -rf $(VENV)
