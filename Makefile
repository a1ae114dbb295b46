# navrl: every target prepares .venv first; `make` alone lists them.
#
# A different torch build:  make setup TORCH_SPEC=torch==2.13.0 PIP_ARGS='--index-url <wheel index of your CUDA version>'
PYTHON     ?= python3
VENV       := .venv
PY         := $(VENV)/bin/python
STAMP      := $(VENV)/.navrl-setup
TORCH_SPEC ?= torch==2.13.0
PIP_ARGS   ?=
ARGS       ?=
PIP        := PIP_DISABLE_PIP_VERSION_CHECK=1 $(PY) -m pip install --quiet -c constraints.txt
# `check` runs its parts in the order written, also under make -j.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help setup train train-sync test test-commands test-hostile test-browser learn check format format-check lint types imports deps size conf audit sbom bench docs clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo "  options go in ARGS, for example: make train ARGS='seed=1 total_frames=200000'"

setup: $(STAMP)  ## create .venv with everything; does nothing when it is up to date

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "navrl needs Python 3.11 or newer, and '$(PYTHON)' is not; name one: make setup PYTHON=/path/to/python3.11" >&2; \
	  exit 1; }
	@test -x $(PY) && $(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); \
	  echo "Python could not create .venv; on Debian and Ubuntu this command helps: sudo apt-get install -y python3-venv" >&2; \
	  exit 1; }
	@echo "setup: installing $(TORCH_SPEC), then navrl and its tools (a few minutes the first time)"
	@$(PIP) $(PIP_ARGS) '$(TORCH_SPEC)'
	@$(PIP) -e '.[dev]'
	@$(PIP) --no-deps hydra-ray-launcher==1.2.2  # which wants an older cloudpickle, and boto3 for AWS, and needs neither
	@touch $@

train: setup  ## train a demonstration policy; ARGS adds Hydra options
	$(PY) -m navrl.train env=combat agent=ppo experiment=demo $(ARGS)

train-sync: setup  ## train a team, once its installation is checked; ARGS adds options of scripts/train_sync.sh
	scripts/train_sync.sh $(ARGS)

test: setup  ## fast tests
	$(PY) -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

test-commands: setup  ## every command of the README and other whole commands, as users run them
	$(PY) -m pytest -q -m commands -n 2 --dist worksteal $(ARGS)

test-hostile: setup  ## attacks: files of strangers, races, kills, signals
	$(PY) -m pytest -q -m hostile tests/hostile -n 2 --dist worksteal $(ARGS)

test-browser: setup  ## the replay page in headless Chromium (Debian: apt-get install chromium)
	$(PY) -m pytest -q -m browser tests/browser $(ARGS)

learn: setup  ## slow tests: policies must become good
	$(PY) -m pytest -q -m 'learning or slow' --timeout=3600 $(ARGS)

check: format-check lint imports deps size types conf  ## every static check, fastest first

format: setup  ## rewrite the source in the house format
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix-only --quiet .

format-check: setup
	$(PY) -m ruff format --check --quiet .

lint: setup  ## ruff
	$(PY) -m ruff check --quiet .

imports: setup  ## which module may import which
	$(VENV)/bin/lint-imports

deps: setup  ## declared dependencies against used ones
	$(VENV)/bin/deptry navrl

size: setup  ## lines per file, limits, and crumbs
	$(PY) scripts/size.py

types: setup  ## mypy
	$(PY) -m mypy

conf: setup  ## the layout of the house, and every YAML option against its constructor
	$(PY) -m pytest -q tests/architecture/test_house.py tests/architecture/test_conf.py

audit: setup  ## pinned packages against known advisories; ARGS=--live fails unless the live service answers
	$(PY) scripts/release.py audit $(ARGS)

sbom: setup  ## dist/navrl-<version>.cdx.json: every pinned package with version, licence and purl
	$(PY) scripts/release.py sbom

bench: setup  ## where the time of a training run goes
	$(PY) -m navrl.commands.bench $(ARGS)

docs: setup  ## build/site: these documents and the reference, for a browser without network
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build -q -f docs/site/mkdocs.yml

clean:  ## remove caches and builds; keeps .venv and outputs/
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
