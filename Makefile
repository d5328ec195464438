# Every command of this project. Each works on a fresh machine with Python 3.11+ and make.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Hundreds of programs start in a run of the tests: none compiles what another one has compiled.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
PYTHONS ?= 3.11 3.12 3.13 3.14
BIN := .venv/bin
READY := .venv/.ready
NODE_READY := tests/node_modules/.ready
# How many processes run the tests, many of which wait more than they compute.
PROCESSES ?= 4
DEVELOPMENT := --editable ./generated_vmm --editable '.[broker,network,redis,sql,testing]' --group dev
EVERYTHING := $(DEVELOPMENT) --group bench

# The tests that need neither Node nor Chromium, and those of them that a change breaks first.
PYTHON_TESTS := --numprocesses $(PROCESSES) --dist worksteal --ignore tests/browser --ignore tests/oidc/real_op \
	--ignore tests/console/in_chromium --ignore tests/fleet/test_chromium.py
FAST_TESTS := $(PYTHON_TESTS) $(foreach folder,console fleet packaging tools typing oidc/fleet oidc/redis_topologies oidc/property oidc/testing \
	vmm/codegen vmm/guest vmm/models vmm/process vmm/real vmm/real_guest,--ignore tests/$(folder)) \
	$(foreach file,documentation process processes sockets storm derivation import forked conftest running,--ignore-glob 'tests/*_$(file).py')

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

setup: $(READY) ## make .venv with everything that is a Python package

$(READY): pyproject.toml generated_vmm/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing Python packages into .venv"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt pip
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --build-constraint constraints.txt $(EVERYTHING)
	@$(BIN)/python -m compileall -q fastapi_oidc generated_vmm examples
	@touch $@

# Programs that are no Python packages: Node, Redis, PostgreSQL, nginx, Chromium. Says what is missing; with CI=true that is an error.
.PHONY: programs
programs: $(READY)
	@tests/programs.sh
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(NODE_READY) terminal; fi

$(NODE_READY): tests/package.json tests/package-lock.json
	@echo "Installing Node packages into tests/node_modules"
	@cd tests && npm ci --silent --no-audit --no-fund
	@touch $@

# xterm.js of the console's terminals, from its npm package; without npm the pages work as without script.
XTERM := examples/console/static/xterm
.PHONY: terminal
terminal: ## build what the console's terminals need, from npm packages
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(XTERM)/xterm.mjs; \
		else echo "npm is missing: the console's terminals are those without script"; fi

$(XTERM)/xterm.mjs: examples/console/package.json examples/console/package-lock.json
	@cd examples/console && npm ci --silent --no-audit --no-fund
	@mkdir -p $(XTERM)
	@cp examples/console/node_modules/@xterm/addon-fit/lib/addon-fit.mjs $(XTERM)/
	@cp examples/console/node_modules/@xterm/xterm/{css/xterm.css,LICENSE} $(XTERM)/
	@sed '/^\/\/# sourceMappingURL/d' examples/console/node_modules/@xterm/xterm/lib/xterm.mjs >$@

demo: setup terminal ## serve the console with its own provider and monitor
	@$(BIN)/python -m examples.console

fleet: setup terminal ## serve the console by four workers behind nginx with one Redis, and a page that stops and starts them
	@tests/programs.sh redis-server nginx
	@$(BIN)/python -m examples.fleet

test: setup programs ## run every test
	@$(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal $(ARGS)

test-fast: setup ## run the tests that break first: a minute, no programs, no processes
	@$(BIN)/python -m pytest --quiet $(FAST_TESTS) $(ARGS)

test-pythons: setup ## run the tests that need Python alone with every Python on this machine
	@tools/release/pythons.sh "$(PYTHONS)" --quiet $(PYTHON_TESTS) $(ARGS)

test-lowest: setup ## run them with the lowest versions that pyproject.toml allows
	@mkdir -p build && $(PYTHON) -m venv build/lowest
	@$(BIN)/python -m tools.release.lowest > build/lowest/constraints.txt
	@build/lowest/bin/python -m pip install --quiet --constraint constraints.txt pip
	@build/lowest/bin/python -m pip install --quiet --constraint build/lowest/constraints.txt $(DEVELOPMENT)
	@build/lowest/bin/python -m pytest --quiet -p no:cacheprovider -p no:anyio $(PYTHON_TESTS) --ignore tests/tools/benchmarks $(ARGS)

check: setup ## format, lint, types, layers, generated code
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(MAKE) --no-print-directory codegen-check

codegen: setup ## regenerate the monitor client; SPEC=FILE imports a release's description first
	@$(BIN)/python -m codegen $(if $(SPEC),--spec '$(SPEC)')

codegen-check: setup ## compare the generated code with a fresh generation
	@$(BIN)/python -m codegen --check

releases: setup programs ## test and check with other descriptions of the monitor; SPECS="FILE ...", or "older newer"; QUICK=1
	@$(BIN)/python -m tests.releases $(SPECS) $(if $(QUICK),--quick)

renames: setup ## try the client with every field of the description renamed, and every call removed (20 minutes); WORDS="Drive ..." for some
	@$(BIN)/python -m tests.releases --renames $(WORDS)

# FIRECRACKER_BIN=PROGRAM for a real monitor; BEFORE=FOLDER beside the libraries of another checkout; NAMES="storms memory"
bench: setup ## print figures and peers side by side, and which targets are missed (4 minutes); KEEP=1 for docs/benchmarks
	@tests/programs.sh redis-server
	@$(BIN)/python -m tools.benchmarks $(if $(KEEP),--keep) $(if $(BEFORE),--before '$(BEFORE)') $(NAMES)

load: setup ## let many people use a fleet for a minute, and check every response against the rules
	@tests/programs.sh redis-server nginx
	@$(BIN)/python -m tools.load --seconds 60

EACH ?= 60
soak: MINUTES = 30
soak: setup ## the same for half an hour with a fault each minute; MINUTES=30 EACH=60
	@tests/programs.sh redis-server nginx
	@$(BIN)/python -m tools.load --seconds $$(($(MINUTES) * 60)) --fault-each $(EACH)

constraints: ## write constraints.txt with the newest versions that pyproject.toml allows
	@mkdir -p build && $(PYTHON) -m venv --clear build/newest
	@build/newest/bin/python -m pip install --quiet --upgrade pip
	@build/newest/bin/python -m pip install --quiet $(EVERYTHING) --group fuzz --group mutants
	@(echo '# Exact versions for development and CI, written by: make constraints'; \
		build/newest/bin/python -m pip freeze --all --exclude-editable --exclude setuptools) > constraints.txt

fuzz: MINUTES ?= 2
fuzz: setup ## make up inputs for every parser of untrusted input; MINUTES=2 TARGETS="..."
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group fuzz
	@$(BIN)/python -m tools.fuzz --seconds $$(($(MINUTES) * 60)) $(TARGETS)

machine: EXAMPLES ?= 500
machine: setup ## play processes, browsers, provider and stores at random, some minutes; EXAMPLES=5000 ARGS="-k store"
	@MACHINE_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest --quiet --timeout=0 tests/oidc/test_session_machine.py $(ARGS)

mutants: MINUTES ?= 10
mutants: CHILDREN ?= 1
mutants: setup ## change the code and print what no test notices; MINUTES=10 CHILDREN=1 MODULES="FILE ..."
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group mutants
	@$(BIN)/python -m tools.mutation --minutes $(MINUTES) --children $(CHILDREN) $(MODULES)

audit: setup ## look up known vulnerabilities of the pinned dependencies
	@$(BIN)/python -m tools.release.audit

wheel: setup ## build both wheels, their source archives and the wheels' bill of materials in dist
	@rm -rf dist && $(BIN)/python -m hatchling build
	@cd generated_vmm && ../$(BIN)/python -m hatchling build --directory ../dist
	@mkdir -p build && $(PYTHON) -m venv --clear --without-pip build/wheel
	@$(BIN)/python -m pip --python build/wheel install --quiet --constraint constraints.txt dist/generated_vmm-*.whl "$$(echo dist/fastapi_oidc_vmm-*.whl)[broker,network,redis,sql,testing]"
	@tools/release/bill_of_materials.sh build/wheel dist/bill-of-materials.cdx.json

docs: setup ## build the documentation site, strictly
	@$(BIN)/python -m zensical build --strict --clean
	@echo "Open build/site/index.html, or serve it with search: make docs-serve"

docs-serve: setup ## serve the documentation site on http://localhost:8001, rebuilt at each change
	@$(BIN)/python -m zensical serve --dev-addr localhost:8001

# FIRECRACKER_BIN=PROGRAM KERNEL=UNCOMPRESSED_KERNEL [INITRD=FILE] [JAILER_BIN=PROGRAM] [SEEDS="1 2"] [CALLS=1000]
SEEDS ?= 1
CALLS ?= 1000
real: setup ## test with a real monitor, and compare the simulated one with it: FIRECRACKER_BIN=... KERNEL=...
	@$(BIN)/python -m pytest -q -n0 tests/vmm/real tests/vmm/process tests/console/test_any_monitor.py
	@$(BIN)/python -m tests.vmm.real --seeds $(SEEDS) --calls $(CALLS)

# FIRECRACKER_BIN=PROGRAM for guests of a real Firecracker too, in an emulated host with an emulated KVM.
real-guest: setup ## test programs and files in Linux guests: builds the rigs in build/real-guest (minutes); FIRECRACKER_BIN=...
	@echo "Setting up the rigs in build/real-guest"
	@tests/vmm/real_guest/rig.sh setup
	@REAL_GUEST=1 $(BIN)/python -m pytest -q -n0 --timeout 900 tests/vmm/real_guest $(ARGS)

screenshots: setup terminal ## take the README's screenshots from the running console
	@tests/programs.sh chromium
	@$(BIN)/python -m tools.screenshots docs/images

.PHONY: help setup demo fleet test test-fast test-pythons test-lowest check constraints fuzz machine mutants audit wheel codegen codegen-check releases renames bench load soak docs docs-serve real real-guest screenshots
