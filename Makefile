# One verb each, the same on a laptop and in CI. Needs Python 3.11 or newer, git and make.
# Choose another Python with: make app PYTHON=python3.12
# Tests run in two processes; with: make test WORKERS=4. What each tier holds: docs/tests.md

PYTHON ?= python3
WORKERS ?= 2
RECIPE ?= recipes/en-de.toml
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
RUN := .venv/installed
DEV := .venv/installed-dev
PYTEST := $(BIN)/python -m pytest --durations 25
SPREAD := --numprocesses $(WORKERS) --dist worksteal
# `make lowest`: its environment, and what requirements-dev.txt pins that the lowest file pins too.
LOWEST := .venv-lowest
OTHERS := ^(accelerate|anywidget)==
LIGHT := not browser and not app and not shipped and not process and not families and not slow and not soak

# Compiled files are kept, whatever the shell says: without them each run compiles all tests anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help app test quick test-of check coverage docs-check bench soak train docs wheel lowest \
  screenshots

help: ## say what there is to make
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /:	/' | expand -t 14

app: $(RUN) ## install what is missing and start the app on http://127.0.0.1:8501
	$(BIN)/transformer-viz app

test: $(DEV) ## install what tests need and run all of them, the browser's too
	@./.ci/chromium
	$(PYTEST) $(SPREAD) -m 'not soak' $(ARGS)

quick: $(DEV) ## run what needs no browser, app, shipped model, library model or second Python
	$(PYTEST) $(SPREAD) -m '$(LIGHT)' --ignore tests/browser $(ARGS)

test-of: $(DEV) ## run a folder or a file of tests: make test-of tests/metrics
	@./.ci/chromium
	$(PYTEST) $(or $(OF),$(filter-out $@,$(MAKECMDGOALS))) $(ARGS)

check: $(DEV) ## format, lint and types, of the JavaScript too; known weaknesses of packages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	./.ci/tsc --project .
	./.ci/audit

coverage: $(DEV) ## lines and branches that no test runs: make coverage ARGS="tests/metrics tests/core"
	@./.ci/chromium
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --cov --cov-report=term $(ARGS)

docs-check: $(DEV) ## run what README and docs/ show: code, command lines, links, examples
	$(BIN)/python -m pytest tests/architecture/test_docs.py tests/architecture/test_examples.py \
	  tests/architecture/test_map.py tests/architecture/test_public.py $(ARGS)

bench: $(DEV) ## measure, and write benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks.run $(ARGS)

soak: $(DEV) ## a monkey, two visitors, other tools, odd inputs, faults in the probe, other packages
	@./.ci/chromium
	$(BIN)/python -m tests.soak $(ARGS)
	$(BIN)/python -m tests.foreign.mutants --tests --write
	$(BIN)/python -m tests.soak.foreign
	$(PYTEST) $(SPREAD) -m soak

train: $(RUN) ## train the model in the box again: make train DATA=folder [RECIPE=file]
	@test -n "$(DATA)" || { echo "make train needs the folder of sentence pairs:" \
	  "make train DATA=folder (README.md says where to get them)." >&2; exit 2; }
	$(BIN)/transformer-viz train "$(RECIPE)" --data "$(DATA)" $(ARGS)

docs: $(DEV) ## build the docs as a site into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

wheel: $(DEV) ## build the wheel and the source archive into dist/
	$(BIN)/python -m hatchling build

lowest: wheel ## try the lowest versions of pyproject.toml, in an environment of its own
	$(PYTHON) -m venv $(LOWEST)
	grep -vE '$(OTHERS)' requirements-dev.txt >$(LOWEST)/dev.txt
	$(LOWEST)/bin/python -m pip install --constraint requirements-lowest.txt \
	  "$$(ls -t dist/*.whl | head -n 1)[export,notebook,accelerate]" --requirement $(LOWEST)/dev.txt
	$(LOWEST)/bin/python -m pytest $(SPREAD) -m 'not browser and not soak' --ignore tests/browser \
	  -W 'ignore::DeprecationWarning:torch.jit._script' $(ARGS)

screenshots: $(DEV) ## take the pictures of docs/pictures in a headless browser
	@./.ci/chromium
	$(BIN)/python docs/make_screenshots.py

# A stamp each, so that a second start finds nothing to do.
$(RUN): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "transformer_viz needs Python 3.11 or newer; '$(PYTHON)' is" \
	  "$$($(PYTHON) --version 2>/dev/null || echo not there)." \
	  "Name another: make app PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(PIP) install -r requirements.txt
	$(PIP) install --no-deps --editable .
	@touch $@

$(DEV): requirements-dev.txt $(RUN)
	$(PIP) install -r requirements.txt -r requirements-dev.txt
	@touch $@
