#!/usr/bin/env bash
# Runs the named stages of tests, all of them even if one fails, and prints one line per
# stage at the end: test.sh capi capi_long python python_long r imports readme clients cluster
# pages delays asan tsan valgrind coverage_c coverage_python fuzz.
# `//` separates lanes, which run in parallel: test.sh capi r // python. The output of every
# lane except the first is shown when the lane has ended.
# The environment (models, R library, Python) is set by the Makefile.
# shellcheck disable=SC2329 # the stages are called by their names
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

CMAKE=.venv/bin/cmake
CTEST=.venv/bin/ctest

# build_capi FOLDER OPTION...: builds the C API with its tests, or only BUILD_TARGET. Two parts of CI use the
# same folder, so the second waits until the first has ended. The files of a room are compiled
# together, in two fifths of the time.
build_capi() {
  local folder=$1 lock
  shift
  exec {lock}>"$folder.lock"
  if command -v flock >/dev/null; then flock "$lock"; fi
  logged "cmake-${folder##*/}" "$CMAKE" -S . -B "$folder" -G Ninja \
    -DCMAKE_MAKE_PROGRAM="$PWD/.venv/bin/ninja" -DPython_EXECUTABLE="$VENV_PYTHON" \
    -DLLAMAHERD_TESTS=ON -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 "$@"
  logged "build-${folder##*/}" "$CMAKE" --build "$folder" --target "${BUILD_TARGET:-all}"
  exec {lock}>&-
}

# build_plain FOLDER OPTION...: a build without a sanitizer. It compiles in half the time of
# -O2 -g. The tests of Python use the installed library, which is compiled with -O3.
build_plain() {
  build_capi "$1" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_{C,CXX}_FLAGS_RELWITHDEBINFO='-O1 -g1 -DNDEBUG' "${@:2}"
}

# Builds the unit tests only, and runs the test cases in the source files UNITS, a list of
# patterns with commas; for changes of one file, which is compiled alone.
stage_units() {
  BUILD_TARGET=units build_plain build/quick -DCMAKE_UNITY_BUILD=OFF
  LLAMAHERD_TEST_SCENARIOS=100 build/quick/tests/capi/units --source-file="$UNITS"
}

# Runs some of the random scenarios; stage_capi_long runs all.
stage_capi() {
  build_plain build/test
  LLAMAHERD_TEST_SCENARIOS=400 "$CTEST" --test-dir build/test --output-on-failure --timeout 900 \
    --label-exclude long
}

# All scenarios, and the programs with the label "long".
stage_capi_long() {
  build_plain build/test
  "$CTEST" --test-dir build/test --output-on-failure --timeout 1800 --tests-regex '^(units|resize)$'
}

# run_pytest N OPTION...: N tests at a time, because many tests wait for programs that they
# start. A test that hangs fails after a timeout, with the line at which it hung.
run_pytest() {
  "$VENV_PYTHON" -m pytest -n "$@"
}

# Three processes, because the process that runs the tests of Ray waits most of the time.
stage_python() {
  run_pytest 3 --timeout=900 --times="$LOG_DIR/times-python.json"
}

# SHARD=2/3 runs a third of the files.
stage_python_long() {
  run_pytest 3 --timeout=1800 --long ${SHARD:+--shard="$SHARD"} \
    --times="$LOG_DIR/times-python-long.json"
}

# Tests whose threads, event loops and child processes are delayed at random, see
# tests/python/delays.py.
stage_delays() {
  local folders
  read -ra folders <<<"${TESTS:-tests/python/server tests/python/loop tests/python/run tests/python/ray tests/python/remote}"
  LLAMAHERD_TEST_DELAYS=${SEED:-1} run_pytest 2 --timeout=1800 "${folders[@]}"
}

stage_cluster() {
  "$VENV_PYTHON" -m pytest --timeout=1800 tests/cluster
}

# Clients of the server, without llamaherd in their environment.
stage_clients() {
  LLAMAHERD_PROGRAM="$PWD/.venv/bin/llamaherd" build/clients/bin/python -m pytest \
    -c tests/clients/pytest.ini --rootdir tests/clients --confcutdir tests/clients tests/clients
}

stage_readme() {
  one_core "$VENV_PYTHON" scripts/run_readme.py --check README.md docs/c.md
}

stage_pages() {
  one_core "$VENV_PYTHON" scripts/run_readme.py --check
}

stage_r() {
  limited Rscript --vanilla scripts/testthat.R
}

# The R package in a library with only its Imports.
stage_imports() {
  one_core Rscript --vanilla tests/imports/run.R build/imports
}

# One build with ASan and UBSan, also used by the fuzzer.
build_sanitized() {
  build_capi build/asan -DLLAMAHERD_SANITIZE=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++
}

stage_asan() {
  build_sanitized
  # Here and below, only a fifth of the random scenarios are run; capi_long runs all of
  # them.
  LLAMAHERD_TEST_SCENARIOS=400 \
    ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1 \
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
    "$CTEST" --test-dir build/asan --output-on-failure --timeout 1800
}

stage_tsan() {
  build_capi build/tsan -DLLAMAHERD_TSAN=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo
  # Does not run the programs that use a real model, because ggml's threads are not
  # instrumented.
  LLAMAHERD_TEST_SCENARIOS=400 build/tsan/tests/capi/units
}

stage_valgrind() {
  build_plain build/test
  # Does not run the programs that use a real model, because valgrind does not support all
  # instructions of a llama.cpp that is compiled for this processor. Runs only a fifth of
  # the random scenarios: with all of them this stage would take four times as long.
  # somalloc: the operator new of tests/capi/allocations.cpp stays in place.
  LLAMAHERD_TEST_SCENARIOS=400 valgrind --error-exitcode=1 --leak-check=full --errors-for-leak-kinds=definite \
    --suppressions=tests/capi/valgrind.supp --soname-synonyms=somalloc=nouserintercepts \
    build/test/tests/capi/units
}

# A line of the shim is covered if any C test runs it, with a tiny random model or a real
# model. A line of a template is counted only once.
stage_coverage_c() {
  build_capi build/coverage -DLLAMAHERD_COVERAGE=ON -DCMAKE_BUILD_TYPE=Debug
  find build/coverage -name '*.gcda' -delete
  "$CTEST" --test-dir build/coverage --output-on-failure --timeout 1800
  .venv/bin/gcovr --root . --filter capi_shim/ --merge-lines --fail-under-line 95 \
    build/coverage
}

# The coverage includes processes that tests start, such as R.
stage_coverage_python() {
  local coverage=.venv/bin/coverage
  mkdir -p build/coverage
  "$coverage" erase
  "$VENV_PYTHON" -m coverage run -m pytest -n 2 --timeout=1800
  "$VENV_PYTHON" -m coverage run -m pytest -n 2 --timeout=1800 --long
  "$coverage" combine --quiet
  "$coverage" report --fail-under=95
}

# Runs each target for FUZZ_SECONDS, starting from stored inputs and inputs of earlier
# runs. The timeout finds endless loops. It is long, because a grammar may need 100
# million steps per token, which take many seconds with sanitizers and other load.
stage_fuzz() {
  build_sanitized
  local target
  for target in gguf text; do
    mkdir -p "build/fuzz/corpus/$target"
    # libggml logs each file that it cannot read; only the messages of the shim are kept.
    "build/asan/tests/fuzz/fuzz_$target" -max_total_time="${FUZZ_SECONDS:-20}" -timeout=120 \
      -max_len=8192 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/$target-" \
      "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target"
  done
}

# Prints the line with the number of tests from the output of a stage.
closing_line() {
  grep -aE '^\[doctest\] test cases|^TOTAL .*%|^=+ .*(passed|failed|error).* =+$|[0-9]+% tests passed|^\[ FAIL [0-9]|^[0-9]+ passed, ' "$1" |
    tail -n 1 | sed -E 's/^=+ | =+$//g'
}

# failures FILE: prints what failed, from the output of a stage.
failures() {
  {
    sed -n '/Failed tests [═=]/,/^\[ FAIL/p; /^The following tests FAILED/,$p' "$1"
    grep -aE '^(FAILED|ERROR) |^[0-9]+ passed, [1-9][0-9]* failed' "$1"
  } | head -n 60 || true # it ends the others early
}

# run_stages STAGE...: runs stages one after the other; writes a line on each to its .line
# file, and what failed to its .failed file.
run_stages() {
  local stage output start verdict failed=0
  for stage in "$@"; do
    say "tests: $stage"
    output=$LOG_DIR/test-$stage.log start=$SECONDS verdict=ok
    if ! ("stage_$stage") 2>&1 | tee "$output"; then
      verdict=FAILED failed=1
      failures "$output" >"$LOG_DIR/test-$stage.failed"
    fi
    printf '%-9s %-7s %s (%s)\n' "$stage" "$verdict" "$(closing_line "$output")" \
      "$(duration $((SECONDS - start)))" >"$LOG_DIR/test-$stage.line"
  done
  return "$failed"
}

first=() rest=() lanes=() logs=() stages=()
in_first=1
for word in "$@" //; do
  if [[ $word != // ]]; then
    stages+=("$word")
    if ((in_first)); then first+=("$word"); else rest+=("$word"); fi
    continue
  fi
  if ((in_first)); then
    in_first=0
  elif ((${#rest[@]})); then
    log=$LOG_DIR/lane-${rest[0]}.log
    run_stages "${rest[@]}" >"$log" 2>&1 &
    lanes+=($!) logs+=("$log") rest=()
  fi
done

for stage in "${stages[@]}"; do rm -f "$LOG_DIR/test-$stage".{line,failed}; done
failed=0
run_stages "${first[@]}" || failed=1
for i in "${!lanes[@]}"; do
  wait "${lanes[i]}" || failed=1
  cat "${logs[i]}"
done
printf '\n'
for stage in "${stages[@]}"; do cat "$LOG_DIR/test-$stage.line"; done
if ((failed)); then say "tests FAILED: see the lines above"; else say "all tests passed: ${stages[*]}"; fi
exit "$failed"
