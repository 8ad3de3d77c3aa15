# Each target installs what it needs: .venv is built from the lock files, with hashes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
READY := $(VENV)/.ready

# The tests start sunk-sync some hundred times: without compiled modules, each time compiles it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-fast coverage ci test-newcomer test-real test-chaos e2e night check docs bench testbed lock image clean

help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

# A lock names every package that is needed: pip resolves nothing, so no later release matters.
INSTALL = -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r

# Without PYTHON a .venv stays as it is. With another PYTHON than made it, it is built anew.
WHICH := import sys; print(sys.base_prefix, sys.version)
ifneq ($(origin PYTHON),file)
ifneq ($(wildcard $(RUNTIME)),)
ifneq ($(shell $(PYTHON) -c '$(WHICH)' 2>&1),$(shell $(BIN)/python -c '$(WHICH)' 2>&1))
ANOTHER := another-python
endif
endif
endif
.PHONY: another-python
another-python: ;

$(RUNTIME): requirements.lock $(ANOTHER)
	@$(PYTHON) -c '' 2>/dev/null || { echo "$(PYTHON) is no Python that runs. Set PYTHON=/path/to/python3.11."; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "sunk-sync needs Python 3.11 or later; $$($(PYTHON) --version) is on the path. Set PYTHON=/path/to/python3.11."; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module: apt-get install python3-venv (Debian, Ubuntu)."; exit 2; }
	@echo "installing the packages of requirements.lock into $(VENV) for $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python $(INSTALL) requirements.lock
	@touch $@

$(READY): $(RUNTIME) requirements-dev.lock pyproject.toml
	$(BIN)/python $(INSTALL) requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(RUNTIME) ## run the demo; it needs no cluster
	$(BIN)/python -m sunk_sync demo

test: $(READY) ## check and test everything that needs no servers and no root
	@$(MAKE) --no-print-directory --jobs=2 check test-fast

test-fast: $(READY) ## run the tests that need no servers
	$(FAST)

FAST = $(BIN)/python -m pytest --tier commit -m "not real and not e2e and not newcomer" -n 2 --dist worksteal

coverage: $(READY) ## show which lines the tests without servers run; it takes four times as long
	$(FAST) --cov --cov-report=term-missing:skip-covered

ci: $(READY) ## run what CI runs after make test, also on real servers (root, Debian and Go)
	@# Build the servers beside the demos of the newcomer, which mostly wait.
	@$(MAKE) --no-print-directory --jobs=2 test-newcomer testbed
	@$(MAKE) --no-print-directory test-real
	@$(MAKE) --no-print-directory test-chaos

test-newcomer: $(READY) ## run the first commands of the README in a fresh clone of the last commit
	$(BIN)/python -m pytest -m newcomer -n 2 tests/newcomer

# A change is what came in the six hours before the last commit, unless CI names its base.
BASE ?= $(shell git rev-list -1 --before="$$(( $$(git log -1 --format=%ct) - 21600 ))" HEAD)
REAL = $(BIN)/python -m pytest -m real --tier commit --changed-since "$(BASE)" --dist loadfile \
  tests/real tests/chart tests/image tests/page -o cache_dir=.pytest_cache/real --durations 25

test-real: $(READY) testbed ## run the tests with real Kubernetes and Slurm servers that CI runs
	@# The tests often wait for servers, so four at a time share two cores.
	mkdir -p build && rm -f build/real.failed && { $(REAL) -n 4 || touch build/real.failed; }
	@# Real daemons can be late on a busy machine: run failed tests once more, alone. Both runs are shown.
	[ ! -e build/real.failed ] || $(REAL) --last-failed --last-failed-no-failures none

test-chaos: $(READY) testbed ## inflict a minute of random faults on real servers and two replicas
	@# Its limits are seconds: nothing else runs meanwhile.
	$(BIN)/python -m pytest -m real tests/chaos -rP

e2e: $(READY) testbed ## run slurmd in containers of real kubelets (root, Debian and Go; twenty minutes)
	@# It builds the kubelet and the images, and installs containerd; the tests of CI need none of them.
	nice $(BIN)/python -m tests.e2e
	$(BIN)/python -m pytest -m e2e tests/e2e -rP

night: $(READY) ## run everything that this product still lacks (hours); PART=mutants: some parts
	$(BIN)/python -m tests.night $(PART)

check: $(READY) docs ## check style, types, layers and the links of the documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY) ## build the site of the documentation into build/site
	@# Without --quiet, with which mkdocs counts no warnings, so that a wrong link would not fail.
	@# The variable hides a notice: this theme gets fixes until May 2027. Its successor reads mkdocs.yml too.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --clean

testbed: $(READY) ## build the real servers once (15 to 50 minutes) into the cache
	nice $(BIN)/python -m tests.real build

bench: $(READY) testbed ## measure speed and memory
	$(BIN)/python -m tests.bench

lock: ## update the lock files from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -q -o requirements.lock
	uv pip compile pyproject.toml --extra traces -c requirements.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -q -o requirements-traces.lock
	uv pip compile pyproject.toml --extra dev --extra traces -c requirements.lock -c requirements-traces.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -q -o requirements-dev.lock
	uv pip compile --group build --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -q -o requirements-build.lock

image: $(RUNTIME) ## build the container image with podman or docker, and its bill of materials
	$(BIN)/python -m tools.image $(IMAGE_OPTIONS)

clean: ## remove everything that make created here
	rm -rf $(VENV) build dist *.egg-info .coverage .coverage.* .hypothesis
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
