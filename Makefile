# The two commands: `make rehearse` (a fresh machine to a finished report) and `make test` (all that CI runs).
# What is particular to this machine (CA bundle, proxy, mirrors, wheel folder) stands in the untracked file .env.

-include .env
export

PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: help setup packages box rehearse test lint unit together beside frameworks wheel containers vm proofs docs locks matrix-check golden bench clean

help: ## list the targets
	@grep -hE '^[a-z%-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(BIN)/.ready ## Python environment from the hash-locked file

$(BIN)/.ready: locks/dev.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --requirement locks/dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

packages: setup ## Debian packages that virtual machine and containers need
	$(BIN)/python -m tests.rehearsal packages

box: packages ## the rehearsal machine's box, built here where none can be downloaded
	$(BIN)/python -m tests.rehearsal box

rehearse: box ## a fresh machine to a finished report; prints the report's path
	$(BIN)/python -m tests.rehearsal rehearse

test: lint unit together proofs ## all that CI runs
	@echo "all parts passed"

lint: setup ## ruff, mypy, ansible-lint, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m llmhw_provision.plan.argument_specs --check
	PATH="$(abspath $(BIN)):$$PATH" ANSIBLE_HOME=.ansible $(BIN)/ansible-lint --offline --profile production roles playbooks

unit: setup ## everything that needs no machine
	$(BIN)/pytest -n auto --dist loadfile -m "not container and not vm and not gpu" tests/unit tests/golden tests/docs

together: box # the virtual machine is started first; all beside it gives way to it
	@echo "vm beside frameworks, wheel and containers; each part is shown when it has ended"
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target vm beside

beside: setup
	@$(MAKE) --no-print-directory GENTLY="nice -n 10" frameworks wheel containers

ifdef GENTLY
.NOTPARALLEL:
endif

frameworks: setup ## DeepSpeed, Accelerate, LLaMA-Factory, Megatron-core, TRL and vLLM read launch files, one of each kind
	$(GENTLY) $(BIN)/python -m tests.frameworks
	$(GENTLY) $(BIN)/pytest -m ci tests/frameworks

wheel: setup ## the wheel in empty environments; locks and environments with real uv
	$(GENTLY) $(BIN)/pytest tests/packaging

containers: box ## roles in Debian containers
	$(GENTLY) $(BIN)/pytest --no-skip -n auto --maxprocesses 4 --dist loadfile -m "container and not proof" tests/roles

vm: box ## one life of the rehearsal machine
	$(BIN)/pytest --no-skip -m "vm and not proof" tests/rehearsal

proofs: setup ## which long proofs hold for the files as they are
	$(BIN)/python -m tests.proof status

proof-%: box ## one long proof, with its record in docs/proofs
	$(BIN)/python -m tests.proof run $*

docs: setup ## generated parts of roles and documentation
	$(BIN)/python -m llmhw_provision.plan.argument_specs

locks: setup ## all hash-locked files again: locks/dev.txt, and those of the Python environments from locks/*.in
	$(BIN)/uv pip compile --quiet pyproject.toml --group dev --generate-hashes --python-version 3.11 --no-header \
	  --index-strategy unsafe-best-match --output-file locks/dev.txt
	$(BIN)/python locks/compile.py $(if $(UPGRADE),--upgrade)

matrix-check: setup ## records of versions past their end of life, today or on DATE=2027-01-31
	$(BIN)/llmhw-provision matrix --check $(if $(DATE),--date $(DATE))

golden: setup ## the committed inventories again; review them as a diff
	$(BIN)/pytest tests/golden --update-golden

bench: box ## figures for docs/measurements
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.apply
	$(BIN)/python -m benchmarks.gpu_apply
	$(BIN)/python -m benchmarks.fleet
	$(BIN)/python -m benchmarks.verify_fleet

clean: ## stop and remove whatever a killed run left behind
	$(BIN)/python -m tests.rehearsal clean
