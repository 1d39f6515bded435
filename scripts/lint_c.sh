#!/usr/bin/env bash
# Runs clang-format and clang-tidy on every C and C++ source, without changing files.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

say 'clang-format'
git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | xargs .venv/bin/clang-format --dry-run -Werror

say 'clang-tidy'
# clang-tidy reads the compiler options of each file from a configured build folder.
logged cmake-lint .venv/bin/cmake -S . -B build/lint -G Ninja -DLLAMAHERD_TESTS=ON \
  -DCMAKE_MAKE_PROGRAM="$PWD/.venv/bin/ninja" -DPython_EXECUTABLE="$VENV_PYTHON"
git ls-files 'capi_shim/*.cpp' |
  xargs -P "$(nproc)" -n 1 .venv/bin/clang-tidy --quiet -p build/lint
