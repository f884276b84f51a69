# Every target does its own set-up: it needs Python >= 3.11 with venv, and make, and no more.

PYTHON ?= python3
# What `make demo` runs, after `farref`.
DEMO = demo all
# What `make smoke` runs on the other Pythons: `python -m farref SMOKE_COMMAND`, then these tests.
SMOKE_COMMAND = demo user-to-user
# What depends on the interpreter most: pickles, code by value, asyncio, signals, forks and sockets.
SMOKE_TESTS = -m "not long and not slow and not deep" $(addprefix tests/,actors/values \
	actors/api/test_asyncio.py actors/api/test_signal_handlers.py actors/calls/test_by_value.py \
	actors/calls/test_functions.py actors/core/test_interrupts.py actors/serving/test_faults_in_c.py \
	actors/serving/test_forked_children.py base/test_secure_sockets.py serialization) \
	$(addprefix --ignore tests/serialization/test_,shared.py slots.py recycling.py)
# What may depend on it, in two processes, as the other Pythons are done by then. The protocol, in
# pure Python, runs once, on the main one.
SMOKE_MORE = -n 2 -m "not processes and not long and not slow and not deep" tests/actors \
	$(addprefix tests/,commands/test_cli.py trace/test_stories.py \
	serialization/test_shared.py serialization/test_slots.py serialization/test_recycling.py) \
	$(addprefix --ignore tests/actors/,calls/test_sharing.py rendezvous api/test_asyncio.py \
	calls/test_functions.py core/test_interrupts.py)
# The Pythons that run that, too: the newest is the least like the main one.
SMOKED_MORE = 3.14
smoke-all: SMOKED_MORE = $$version
# How many processes share the tests; a file's are all in one, and the files come in the order of
# tests/conftest.py. 0: none but pytest's own. Short tests wait most of the time, long ones compute.
JOBS = 4
test-all: JOBS = 5
smoke: JOBS = 0
PARALLEL = -n $(JOBS) --dist loadfile --no-loadscope-reorder
# The tests start hundreds of Pythons, each of which would compile everything anew.
export PYTHONDONTWRITEBYTECODE =
# Those that name no base: the default one runs them in `make test`. What needs a process to kill,
# or a system that goes on by itself, is no matter of the in-process base.
ON_PROCESSES_TOO = $(addprefix tests/,actors/wire/test_gathering.py \
	actors/cluster/test_sharing_deaths.py actors/cluster/test_silence.py \
	actors/inspect/test_snapshot.py actors/recording/test_files.py commands/test_refs.py \
	examples/test_programs.py rendezvous/test_backends.py rendezvous/test_service.py)
IN_PROCESS_TOO = $(addprefix tests/,actors/wire/test_gathering.py rendezvous/test_backends.py)
# Which bases Thespian's own tests run on.
CONFORMANCE_BASES = ours ours-tcp $(call STOCK,)
# How long `make soak` kills workers, and what else it tells `python -m tests.faults` (--seed N).
SOAK_SECONDS = 600
SOAK_OPTIONS =
# What it tells `python -m tests.simulation` (--seconds N, --first SEED, --acts N).
SIMULATE_OPTIONS =
# What `make mutants` tells `python -m tests.model.mutate` (modules, --jobs N, --one-in N).
MUTANTS_OPTIONS =
# What they tell `python -m bench` (names, --rounds N, --peers ...), or the script of the target.
BENCH_OPTIONS =
SCALE_OPTIONS =
# What is measured with one core kept busy, too. Not large arrays and 100,000 references: they take too long.
OF_EACH_CALL = call method in-flight remote-fetch share share-fetch
AT_SMALL_POINTS = references values --points 1000,1KB,100KB
# The interpreters that smoke looks for: on the PATH, pyenv's, if there is one, and last Debian
# forky's 3.14, in the root folder of tools/forky, which says why if it cannot be had.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14 $(PYENV_PYTHONS) forky
PYENV_PYTHONS = $(if $(shell command -v pyenv),$(wildcard $(addsuffix .*/bin/python,\
	$(addprefix $(shell pyenv root)/versions/,3.11 3.12 3.13 3.14))))

BIN := .venv/bin
# Thespian's bases, as a shell finds them: all, or those with this ability.
STOCK = $$($(BIN)/python -m tests.bases $(1))
# One stamp per interpreter: `make PYTHON=python3.13 test` makes the environment anew.
STAMP := .venv/.made-by-$(subst /,-,$(PYTHON))
# With what only the long tests, mypy and the site need.
FULL := .venv/.full
# Compiling all that is installed would take as long as the rest: the first import does it.
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
MINOR_VERSION := import sys; print("%d.%d" % sys.version_info[:2])

.DEFAULT_GOAL := help
.PHONY: help demo test test-all compiled test-bases elsewhere lint types fmt docs docs-serve pictures smoke smoke-all deep mutants soak rings simulate conformance torch-rpc bench \
	bench-plots bench-scale bench-base bench-pipeline bench-rendezvous bench-sites bench-tracing bench-values \
	release-check clean

help: ## show these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

demo: $(STAMP) ## set up, then the tour of the demos
	@$(BIN)/farref $(DEMO)

# pytest is the recipe, lint a prerequisite: its summary comes last.
test: lint compiled ## set up, then lint and tests (10 minutes)
	$(BIN)/pytest $(PARALLEL) -m "not long and not slow and not deep"
	@echo "make test-all also runs the long ones: explorations, mutants, several hosts, mypy."

# One of the tests runs mypy and pyright.
test-all: $(FULL) lint compiled ## the same, with the long tests, or a sample (make deep: the rest)
	$(BIN)/pytest $(PARALLEL)

# On a fresh clone each of the processes would compile all tests. So two do that first, half each.
compiled: $(STAMP)
	@$(BIN)/pytest --collect-only -q tests/actors >/dev/null & \
	$(BIN)/pytest --collect-only -q --ignore tests/actors tests >/dev/null; wait

lint: $(STAMP) ## ruff: rules and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(FULL) ## mypy --strict
	$(BIN)/mypy

fmt: $(STAMP) ## let ruff format and fix
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(FULL) ## the documentation's site, into site/VERSION; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file tools/site/mkdocs.yml \
		--site-dir $(CURDIR)/site/$$($(BIN)/farref --version | cut -d ' ' -f 2)

docs-serve: $(FULL) ## the same at http://127.0.0.1:8000, while you write
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --strict --config-file tools/site/mkdocs.yml \
		--watch src --watch actors --watch protocol --watch tests/traces

pictures: $(FULL) ## those of the README, anew: the real thing, and a Chromium
	$(BIN)/python tools/pictures.py

# All Pythons at once, as each waits for itself most of the time. The output of each is shown whole.
smoke: $(STAMP) ## the wheel, quick tests, other Pythons (PYTHONS=...)
	@rm -rf .smoke
	@$(BIN)/python -P -m hatchling build -t wheel -d .smoke/dist
	@seen=" $$($(BIN)/python -c '$(MINOR_VERSION)') "; started=; failed=0; \
	for python in $(PYTHONS); do \
		enter=; \
		if [ $$python = forky ]; then \
			case "$$seen" in *" 3.14 "*) continue ;; esac; \
			enter=tools/forky; python=python3; \
		fi; \
		version=$$([ "$$enter" ] || exec 2>/dev/null; \
			$$enter $$python -c 'import ensurepip, venv; $(MINOR_VERSION)') || continue; \
		case "$$seen" in *" $$version "*) continue ;; esac; \
		seen="$$seen$$version "; venv=.smoke/$$version; \
		( set -e; $$enter $$python -m venv $$venv; \
		$$enter $$venv/bin/python $(PIP_INSTALL) "$$(ls .smoke/dist/*.whl)[test]"; \
		$$enter $$venv/bin/python -P -m farref $(SMOKE_COMMAND); \
		$$enter $$venv/bin/pytest -p no:cacheprovider $(PARALLEL) $(SMOKE_TESTS); \
		[ $$version != $(SMOKED_MORE) ] || \
			$$enter $$venv/bin/pytest -p no:cacheprovider $(PARALLEL) $(SMOKE_MORE) ) >$$venv.log 2>&1 & \
		started="$$started $$!:$$version"; \
	done; \
	for each in $$started; do \
		wait $${each%:*} || failed=1; \
		echo "== smoke: Python $${each#*:}"; cat .smoke/$${each#*:}.log; \
	done; \
	echo "== smoke: done, Pythons seen:$$seen"; exit $$failed

smoke-all: smoke ## the same, with all that 3.14 runs on each of them

test-bases: $(STAMP) ## tests that name no base, on Thespian's (5 minutes)
	for base in $(call STOCK,processes); do \
		$(BIN)/pytest $(PARALLEL) --base $$base $(ON_PROCESSES_TOO) || exit; done
	for base in $(call STOCK,in-process); do \
		$(BIN)/pytest $(PARALLEL) --base $$base $(IN_PROCESS_TOO) || exit; done

elsewhere: $(STAMP) ## tests without what only Linux has (15 minutes)
	cc -shared -fPIC -o .venv/elsewhere.so tests/base/elsewhere.c
	LD_PRELOAD=$(CURDIR)/.venv/elsewhere.so FARREF_WITHOUT=all \
		$(BIN)/pytest $(PARALLEL) tests/base tests/actors

deep: $(FULL) ## what test-all leaves out: large explorations, more hosts, bases and programs
	$(BIN)/pytest $(PARALLEL) -m "deep and not slow"

mutants: $(STAMP) ## each small fault of the protocol, judged by its tests (hours)
	$(BIN)/python -m tests.model.mutate $(MUTANTS_OPTIONS)

soak: $(STAMP) ## the tests of minutes, then 10 minutes of kills
	$(BIN)/pytest -m slow
	$(BIN)/python -m tests.faults --seconds $(SOAK_SECONDS) $(SOAK_OPTIONS)

rings: $(STAMP) ## 140 random graphs, 60 with a death, 40 by themselves; 150 games; 100,000 live objects
	$(BIN)/pytest -m slow tests/actors/cycles

simulate: $(STAMP) ## random programs in virtual time, for 2 minutes
	$(BIN)/python -m tests.simulation $(SIMULATE_OPTIONS)

conformance: $(STAMP) ## Thespian's own tests on our base and on its (40 minutes)
	$(BIN)/python tools/thespian_conformance.py --bases $(CONFORMANCE_BASES)

torch-rpc: $(STAMP) ## PyTorch's own RPC tests on farref.rpc, if there is torch (10 minutes)
	$(BIN)/python tools/torch_rpc.py

bench: $(STAMP) ## every benchmark, beside the peers of '.[bench]'
	$(BIN)/python -m bench $(BENCH_OPTIONS)

bench-plots: $(STAMP) ## the same and bench-scale, into docs/benchmarks.md
	$(BIN)/python -m bench --minutes 5 --json docs/bench.json --plots docs $(BENCH_OPTIONS)
	$(BIN)/python -m bench $(OF_EACH_CALL) $(AT_SMALL_POINTS) --busy --minutes 3 \
		--json docs/bench-busy.json $(BENCH_OPTIONS)
	$(BIN)/python -m bench.scale --json docs/bench-scale.json --plot docs/bench-scale.png $(SCALE_OPTIONS)
	$(BIN)/python -m bench.page

bench-scale: $(STAMP) ## a million references, 200 workers: is it flat?
	$(BIN)/python -m bench.scale $(SCALE_OPTIONS)

bench-base: $(STAMP) ## raw messages on our base, beside Thespian's TCP base
	$(BIN)/python -m bench call one-way values start-worker --peers base,base-no-spin,thespian

bench-rendezvous: $(STAMP) ## a round beside torch's handler, if there is torch
	$(BIN)/python -m bench rendezvous --peers farref,torch-rendezvous $(BENCH_OPTIONS)

bench-pipeline: $(STAMP) ## calls at once beside calls that wait; aliases
	$(BIN)/python -m bench chain chain-stepwise alias-again --peers farref,late $(BENCH_OPTIONS)

bench-values: $(STAMP) ## arrays fetched, frozen or not, beside torch and Ray
	$(BIN)/python -m bench values values-read frozen frozen-read frozen-again \
		--peers farref,torch,torch-tensor,ray $(BENCH_OPTIONS)

bench-sites: $(STAMP) ## what noting where references are created costs
	$(BIN)/python -m bench remote-fetch create-drop --peers farref,sites $(BENCH_OPTIONS)

bench-tracing: $(STAMP) ## what recording a trace costs, beside not recording one
	$(BIN)/python -m bench call share create-drop --peers farref,traced $(BENCH_OPTIONS)

release-check: $(FULL) ## whether this tree can be released; uploads nothing
	$(BIN)/python tools/release_check.py

clean: ## remove the environments and every cache
	rm -rf .venv .smoke build dist site .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("farref needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": give another by make PYTHON=...")'
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python $(PIP_INSTALL) --editable '.[dev]'
	@touch $@

$(FULL): $(STAMP)
	$(BIN)/python $(PIP_INSTALL) --editable '.[full]'
	@touch $@
