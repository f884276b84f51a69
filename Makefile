# Every target does its own set-up: it needs Python >= 3.11 with venv, and make, and no more.

PYTHON ?= python3
# What `make demo` runs, after `farref`.
DEMO = demo all
# What `make smoke` runs on the other Pythons: `python -m farref SMOKE_COMMAND`, then these tests.
SMOKE_COMMAND = demo user-to-user
# The long explorations of pure Python code run once, on the main one.
SMOKE_TESTS = -m "not processes and not slow" $(foreach name,explorer delivery_explorer mutants \
	random_programs rendezvous_explorer rendezvous_mutants,--ignore=tests/test_$(name).py) tests
# How many processes share the tests; a file's are all in one. 0: none but pytest's own.
JOBS = 2
PARALLEL = -n $(JOBS) --dist loadfile
# How long `make soak` kills workers, and what else it tells `python -m tests.faults` (--seed N).
SOAK_SECONDS = 600
SOAK_OPTIONS =
# What it tells bench/rendezvous.py (--nodes, --patience).
BENCH_OPTIONS =
# What it tells `python -m tests.simulation` (--seconds N, --first SEED, --acts N).
SIMULATE_OPTIONS =
# The interpreters that smoke looks for: on the PATH, and pyenv's, if there is one.
PYTHONS ?= python3.11 python3.12 python3.13 $(PYENV_PYTHONS)
PYENV_PYTHONS = $(if $(shell command -v pyenv),$(wildcard $(addsuffix .*/bin/python,\
	$(addprefix $(shell pyenv root)/versions/,3.11 3.12 3.13))))

BIN := .venv/bin
# One stamp per interpreter: `make PYTHON=python3.13 test` makes the environment anew.
STAMP := .venv/.made-by-$(subst /,-,$(PYTHON))
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
MINOR_VERSION := import sys; print("%d.%d" % sys.version_info[:2])

.DEFAULT_GOAL := help
.PHONY: help demo test lint types fmt smoke soak simulate conformance bench-base bench-pipeline bench-rendezvous clean

help: ## show these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

demo: $(STAMP) ## set up, then the tour of the demos
	@$(BIN)/farref $(DEMO)

# pytest is the recipe, the rest are prerequisites: its summary comes last, also with -j.
test: lint types ## set up, then lint, types and tests
	$(BIN)/pytest $(PARALLEL)

lint: $(STAMP) ## ruff: rules and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(STAMP) ## mypy --strict
	$(BIN)/mypy

fmt: $(STAMP) ## let ruff format and fix
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

smoke: $(STAMP) ## the wheel and its quick tests on the other Pythons found (PYTHONS=...)
	@rm -rf .smoke
	@$(BIN)/python -P -m hatchling build -t wheel -d .smoke/dist
	@set -e; seen=" $$($(BIN)/python -c '$(MINOR_VERSION)') "; \
	for python in $(PYTHONS); do \
		version=$$($$python -c 'import ensurepip, venv; $(MINOR_VERSION)' 2>/dev/null) || continue; \
		case "$$seen" in *" $$version "*) continue ;; esac; \
		seen="$$seen$$version "; venv=.smoke/$$version; \
		echo "== smoke: Python $$version"; \
		$$python -m venv $$venv; \
		$$venv/bin/python $(PIP_INSTALL) "$$(ls .smoke/dist/*.whl)[test]"; \
		$$venv/bin/python -P -m farref $(SMOKE_COMMAND); \
		$$venv/bin/pytest $(PARALLEL) $(SMOKE_TESTS); \
	done; \
	echo "== smoke: done, Pythons seen:$$seen"

soak: $(STAMP) ## the tests of minutes, which no other run includes; then 10 minutes of kills
	$(BIN)/pytest -m slow
	$(BIN)/python -m tests.faults --seconds $(SOAK_SECONDS) $(SOAK_OPTIONS)

simulate: $(STAMP) ## as many random programs in virtual time as fit into 2 minutes
	$(BIN)/python -m tests.simulation $(SIMULATE_OPTIONS)

conformance: $(STAMP) ## Thespian's own tests on our system base (about 20 minutes)
	$(BIN)/python tools/thespian_conformance.py --bases ours ours-tcp

bench-base: $(STAMP) ## our system base beside Thespian's TCP base, in one run
	$(BIN)/python bench/base.py

bench-rendezvous: $(STAMP) ## what a round costs, beside torch's handler if torch is installed; plots it
	$(BIN)/python bench/rendezvous.py --plot docs/rendezvous.svg $(BENCH_OPTIONS)

bench-pipeline: $(STAMP) ## calls sent at once beside calls that wait, and a fetch through aliases
	$(BIN)/python bench/pipeline.py

clean: ## remove the environments and every cache
	rm -rf .venv .smoke build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("farref needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": give another by make PYTHON=...")'
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python $(PIP_INSTALL) --editable '.[dev]'
	@touch $@
