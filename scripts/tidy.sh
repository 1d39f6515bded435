#!/usr/bin/env bash
# Runs clang-tidy on the sources of the shim, without changing files.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

# clang-tidy reads the compiler options of each file from a configured build folder.
logged cmake-lint .venv/bin/cmake -S . -B build/lint -G Ninja -DLLAMAHERD_TESTS=ON \
  -DCMAKE_MAKE_PROGRAM="$PWD/.venv/bin/ninja" -DPython_EXECUTABLE="$VENV_PYTHON"
git ls-files 'capi_shim/*.cpp' |
  xargs -P "$(nproc)" -n 1 .venv/bin/clang-tidy --quiet -p build/lint
