# make demo       install the core, run one experiment, show its metrics
# make test       install what the tests use, run every check
# make browser    install Debian's Chromium, which the tests of the report use where it is there
# make emulator   install qemu-user, by which tests play other processors
# make slurm      install Debian's Slurm, its database and faketime, which the simulator slurm and its tests use
# make fuzz       damage files and interrupt commands at random for ten minutes (HDRL_FUZZ_SECONDS, HDRL_FUZZ_SEED)
# make docs       build the documentation site in build/site
# make gallery    draw the pictures of docs/gallery.md anew
# make benchmark  measure the speed of this machine (README=benchmarks/README.md: put the tables there)
# make clean      delete what the above made here, results excepted

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11 python,\
	$(shell $(name) -c "import sys, venv; sys.exit(sys.version_info < (3, 11))" 2>/dev/null && echo $(name))))
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# The tests run hundreds of processes, which must not compile the sources anew each time.
unexport PYTHONDONTWRITEBYTECODE

# The stamps live inside the environment: they go when it goes, and are made anew when what they depend on changes.
CORE := $(VENV)/installed-core
DEV := $(VENV)/installed-dev
DEFINITION := setup.cfg pyproject.toml constraints.txt hdrl/version.py

# The folders agents and launcher are installed as hdrl.agents and hdrl.launcher; checkers that read the sources
# instead of importing them get a copy of the tree as it is installed.
TREE := build/tree

DOCS := $(VENV)/installed-docs

.PHONY: demo test pytest lint imports types tree fuzz browser emulator slurm docs gallery benchmark clean
.DELETE_ON_ERROR:

demo: $(CORE)
	$(BIN)/hdrl-launch classic examples/demo.json

# Checks of the sources run beside the tests: alone, neither keeps two cores busy.
test: $(DEV)
	@$(MAKE) --no-print-directory --jobs=2 lint pytest

pytest: $(DEV)
	MAKEFLAGS= $(BIN)/python -m pytest --quiet --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

lint: $(DEV)
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	@$(MAKE) --no-print-directory tree
	@$(MAKE) --no-print-directory --jobs=2 imports types

tree:
	@rm -rf $(TREE) && mkdir -p $(TREE) && cp -Rp hdrl $(TREE)/ && cp -Rp agents experiments launcher $(TREE)/hdrl/

# Parts of lint, which makes the tree that they read.
imports:
	cd $(TREE) && $(CURDIR)/$(BIN)/lint-imports --no-logo --config $(CURDIR)/setup.cfg --cache-dir ../import-linter

types:
	MYPYPATH=$(TREE) $(BIN)/mypy --no-error-summary --cache-dir build/mypy -p hdrl

fuzz: $(DEV)
	HDRL_FUZZ_SECONDS=$${HDRL_FUZZ_SECONDS:-600} $(BIN)/python -m pytest --quiet tests/fuzz

browser:
	@command -v chromium >/dev/null || { $(if $(filter 0,$(shell id -u)),,sudo )apt-get update -qq && \
		$(if $(filter 0,$(shell id -u)),,sudo )apt-get install -y -qq --no-install-recommends chromium >/dev/null; }

emulator:
	@command -v qemu-x86_64 >/dev/null || { $(if $(filter 0,$(shell id -u)),,sudo )apt-get update -qq && \
		$(if $(filter 0,$(shell id -u)),,sudo )apt-get install -y -qq --no-install-recommends qemu-user >/dev/null; }

slurm:
	@for one in slurmctld slurmd sbatch faketime lua5.4 slurmdbd mariadbd my_print_defaults; do command -v $$one || lacks=1; done >/dev/null 2>&1; \
		[ -z "$$lacks" ] || { $(if $(filter 0,$(shell id -u)),,sudo )apt-get update -qq && \
		$(if $(filter 0,$(shell id -u)),,sudo )apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client faketime lua5.4 \
		slurmdbd mariadb-server-core mariadb-client-core >/dev/null; }

docs: $(DOCS) tree
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The page holds the commands that draw its pictures.
gallery: $(DEV)
	rm -rf build/gallery && mkdir -p build/gallery && ln -s $(CURDIR)/examples build/gallery/examples
	sed -n 's/^\$$ //p' docs/gallery.md > build/gallery/commands
	cd build/gallery && PATH="$(CURDIR)/$(BIN):$$PATH" sh -e commands
	cp build/gallery/*.png docs/pictures/

benchmark: $(CORE)
	@set -e; for file in $(sort $(wildcard benchmarks/*.py)); do echo "$$file"; $(BIN)/python "$$file" $(README:%=--readme %); done

clean:
	rm -rf $(VENV) build .pytest_cache .ruff_cache .hypothesis hdrl.egg-info

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "make: needs Python 3.11 or newer (make PYTHON=...)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(CORE): $(DEFINITION) | $(BIN)/python
	$(INSTALL) --editable .
	@touch $@

# PyBatsim works with the pyzmq of the core; the older one that it asks for cannot be built by Python 3.11.
# Python compiles packages when it first imports them; modules outside packages are compiled here, without warnings,
# which would be errors in the tests.
$(DEV): $(DEFINITION) | $(BIN)/python
	$(INSTALL) --no-compile --editable '.[dev]'
	$(INSTALL) --no-deps pybatsim
	@$(BIN)/python -W ignore -m compileall -qq -l $(VENV)/lib/python*/site-packages >/dev/null 2>&1 || true
	@touch $@ $(CORE)

$(DOCS): $(DEFINITION) | $(BIN)/python
	$(INSTALL) --editable '.[docs]'
	@touch $@ $(CORE)
