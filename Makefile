# Two commands do everything on a machine that has Python 3.10 or newer and make: `make learn` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev
READY_DOCS := $(VENV)/.ready-docs
PAGES := settings commands python errors gallery benchmarks
RUN_ID ?= 3DBall-$(shell date +%Y%m%d-%H%M%S)

.DEFAULT_GOAL := help
.PHONY: help install install-dev learn test test-learning test-slow test-page test-install check format proto test-gpu bench bench-scale bench-gpu bench-page bench-peers bench-bar docs docs-pages dist clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 18

install: $(READY)  ## create .venv and install Palaestra in it

install-dev: $(READY_DEV)  ## the same with the tools of development, as tests and checks do by themselves

define INSTALL_HERE
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Palaestra needs Python 3.10 or newer; choose one with: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable
endef

$(READY): pyproject.toml constraints.txt
	$(INSTALL_HERE) .
	@touch $(READY)

$(READY_DEV): pyproject.toml constraints.txt
	$(INSTALL_HERE) '.[dev]'
	@touch $(READY) $(READY_DEV)

$(READY_DOCS): pyproject.toml constraints.txt
	$(INSTALL_HERE) '.[docs]'
	@touch $(READY) $(READY_DOCS)

learn: $(READY)  ## train the built-in 3DBall and show where its model and plots are
	$(BIN)/palaestra learn configs/ppo/3DBall.yaml --env=builtin:3DBall --run-id=$(RUN_ID)
	$(BIN)/palaestra evaluate $(RUN_ID) --episodes 100

# Some tests wait, so three keep two cores busy. Hundreds of processes start, each of which would compile the package if Python kept no bytecode.
test: $(READY_DEV)  ## run the fast tests
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=3 --dist=worksteal

test-learning: $(READY_DEV)  ## train every environment to its bar, three seeds each (several hours)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow --durations=0 -rA tests/learning

test-slow: $(READY_DEV)  ## run what the fast tests leave out, but for learning and the page (an hour)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow --durations=0 -rA --ignore=tests/learning --ignore=tests/page

test-page: $(READY_DEV)  ## use the page in headless Chromium as a person would (installs it); pictures in results/page
	$(BIN)/python tests/page/browser.py
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m 'slow or not slow' --durations=0 -rA tests/page

test-install: $(READY_DEV)  ## install the wheel in clean environments, oldest and newest versions, and use it there; INSTALL='--python 3.11 ...'
	$(BIN)/python .ci/test_install.py $(INSTALL)

test-gpu: $(READY_DEV)  ## run the CUDA tests, in ten minutes: results/test-gpu.md (without a GPU: smaller, on the CPU)
	$(BIN)/python benchmarks/gpu/run_tests.py

check: $(READY_DEV)  ## check lint, format, types and layers, as every change must pass
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright

format: $(READY_DEV)  ## format the code and fix lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: $(READY_DEV)  ## compile proto/*.proto into the descriptors that the package ships
	$(BIN)/python proto/compile.py

bench: $(READY_DEV)  ## measure the speed of collecting, updating and both together
	$(BIN)/python benchmarks/bench.py

bench-scale: $(READY_DEV)  ## measure what ticks, messages, updates and exchanges cost, and predict runs on more machines: benchmarks/scale.json
	$(BIN)/python benchmarks/scale_inputs.py

bench-gpu: $(READY_DEV)  ## measure speed and memory of a GPU, in ten minutes: results/bench-gpu.md (without a GPU: smaller, on the CPU)
	$(BIN)/python benchmarks/gpu/bench.py

bench-page: $(READY_DEV)  ## measure the page: frames, what a watched run loses, how fast many runs open
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/page.py

bench-peers: $(READY_DEV)  ## run the original toolkit and other libraries on the same work (long)
	$(BIN)/python benchmarks/peers/run.py

bench-bar: $(READY_DEV)  ## solve four Gymnasium environments beside Stable-Baselines3, five seeds each (40 minutes, resumes): results/bar.json
	mkdir -p results
	$(BIN)/python benchmarks/peers/run.py --work bar --json results/bar.json --resume

docs-pages: $(READY_DEV)  ## write the pages of the reference anew, from settings, commands, docstrings, messages and measurements
	for page in $(PAGES); do $(BIN)/python docs/make_$$page.py || exit 1; done

docs: $(READY_DOCS)  ## build the site of the documentation: site/index.html, which a browser opens without a server
	$(BIN)/python docs/site/prepare.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --config-file build/site/mkdocs.yml
	@echo "Open site/index.html"

dist: $(READY_DEV)  ## build the wheel and the sdist in dist/, from one commit always the same bytes
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/hatchling build --clean --directory dist

clean:  ## remove .venv and caches, keep results
	rm -rf $(VENV) .pytest_cache .ruff_cache .import_linter_cache
