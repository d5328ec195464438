# Every command of this project. Each target works first on a fresh machine with Python 3.11+ and make.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
NODE_READY := tests/node_modules/.ready

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

setup: $(READY) ## make .venv with everything that is a Python package

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing Python packages into .venv"
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --editable '.[redis,testing]' --group dev --group bench
	@touch $@

# Programs that are no Python packages: Node, Redis, Chromium. Says what is missing; with CI=true that is an error.
.PHONY: programs
programs: $(READY)
	@tests/programs.sh
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(NODE_READY); fi

$(NODE_READY): tests/package.json tests/package-lock.json
	@echo "Installing Node packages into tests/node_modules"
	@cd tests && npm ci --silent --no-audit --no-fund
	@touch $@

demo: setup ## serve the console with its own provider and monitor
	@$(BIN)/python -m examples.console

test: setup programs ## run every test
	@$(BIN)/python -m pytest --numprocesses 2 --dist worksteal $(ARGS)

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

bench: setup ## print figures and peers side by side
	@$(BIN)/python -m benchmarks.vmm
	@$(BIN)/python -m benchmarks.oidc

docs: setup ## build the documentation site, strictly
	@$(BIN)/python -m zensical build --strict --clean
	@echo "Open build/site/index.html, or serve it with search: make docs-serve"

docs-serve: setup ## serve the documentation site on http://localhost:8001, rebuilt at each change
	@$(BIN)/python -m zensical serve --dev-addr localhost:8001

screenshots: setup programs ## take the README's screenshots from the running console
	@$(BIN)/python -m examples.console.screenshots docs/images

.PHONY: help setup demo test check codegen codegen-check bench docs docs-serve screenshots
