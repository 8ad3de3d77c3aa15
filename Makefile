# Each target installs what it needs: .venv is built from the lock files, with hashes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
READY := $(VENV)/.ready

# The tests start sunk-sync some hundred times: without compiled modules, each time compiles it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-fast coverage test-real test-chaos permissions e2e chaos check docs bench testbed sim mutants mutation lock image clean

help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

# A lock names every package that is needed: pip resolves nothing, so no later release matters.
INSTALL = -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r

$(RUNTIME): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "sunk-sync needs Python 3.11 or later; $$($(PYTHON) --version) is on the path. Set PYTHON=/path/to/python3.11."; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "python3 has no venv module: apt-get install python3-venv (Debian, Ubuntu)."; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) requirements.lock
	@touch $@

$(READY): $(RUNTIME) requirements-dev.lock pyproject.toml
	$(BIN)/python $(INSTALL) requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(RUNTIME) ## run the demo; it needs no cluster
	$(BIN)/python -m sunk_sync demo

test: $(READY) ## run everything that CI runs
	@# Build the servers at low priority, beside what needs none.
	$(MAKE) --no-print-directory --jobs=3 check test-fast testbed
	$(MAKE) --no-print-directory test-real
	$(MAKE) --no-print-directory test-chaos

test-fast: $(READY) ## run the tests that need no servers
	$(BIN)/python -m pytest -m "not real" -n 2 --dist worksteal

coverage: $(READY) ## show which lines the tests without servers run; it takes four times as long
	$(BIN)/python -m pytest -m "not real" -n 2 --dist worksteal --cov --cov-report=term-missing:skip-covered

REAL = $(BIN)/python -m pytest -m real --dist loadfile tests/real tests/chart tests/image tests/page -o cache_dir=.pytest_cache/real

test-real: $(READY) testbed ## run the tests with real Kubernetes and Slurm servers
	@# The tests often wait for servers, so four at a time share two cores.
	mkdir -p build && rm -f build/real.failed && { $(REAL) -n 4 || touch build/real.failed; }
	@# Real daemons can be late on a busy machine: run failed tests once more, alone. Both runs are shown.
	[ ! -e build/real.failed ] || $(REAL) --last-failed --last-failed-no-failures none

test-chaos: $(READY) testbed ## inflict two minutes of random faults on real servers and two replicas
	@# Its limits are seconds: nothing else runs meanwhile.
	$(BIN)/python -m pytest -m real tests/chaos -rP

permissions: $(READY) testbed ## take away each permission in turn on real servers (five minutes)
	$(BIN)/python -m pytest -m real tests/real/permissions

e2e: $(READY) testbed ## run slurmd in containers of real kubelets, both versions of Slurm (twenty minutes)
	@# It builds the kubelet and the images, and installs containerd; the tests of CI need none of them.
	nice $(BIN)/python -m tests.e2e
	$(BIN)/python -m pytest -m e2e tests/e2e -rP

chaos: $(READY) testbed ## inflict ten minutes of random faults on real servers and two replicas
	$(BIN)/python -m tests.chaos

check: $(READY) docs ## check style, types, layers and the links of the documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY) ## build the site of the documentation into build/site
	@# Without --quiet, with which mkdocs counts no warnings, so that a wrong link would not fail.
	@# The variable hides a notice: this theme gets fixes until May 2027. Its successor reads mkdocs.yml too.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --clean

testbed: $(READY) ## build the real servers once (about 15 minutes) into the cache
	nice $(BIN)/python -m tests.real build

bench: $(READY) testbed ## measure speed and memory
	$(BIN)/python -m tests.bench

sim: $(READY) ## simulate 10,000 seeds of hosts, 10,000 of Pods, 4,000 of two replicas, and every crash point (a night on two cores)
	$(BIN)/python -m tests.sim --seeds 10000
	$(BIN)/python -m tests.sim --workloads --seeds 10000
	$(BIN)/python -m tests.sim --replicas --seeds 2000
	$(BIN)/python -m tests.sim --replicas --workloads --seeds 2000
	$(BIN)/python -m tests.sim crash

mutants: $(READY) ## run the tests against seeded defects; each must fail a test
	$(BIN)/python -m tests.sim mutants

mutation: $(READY) ## run mutation tests of rules, policy and outbox
	$(BIN)/python -m tests.mutation

lock: ## update the lock files from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -q -o requirements.lock
	uv pip compile pyproject.toml --extra traces -c requirements.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -q -o requirements-traces.lock
	uv pip compile pyproject.toml --extra dev --extra traces -c requirements.lock -c requirements-traces.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -q -o requirements-dev.lock
	uv pip compile --group build --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -q -o requirements-build.lock

image: $(RUNTIME) ## build the container image with podman or docker, and its bill of materials
	$(BIN)/python -m tools.image $(IMAGE_OPTIONS)

clean: ## remove everything that make created here
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .coverage .import_linter_cache
