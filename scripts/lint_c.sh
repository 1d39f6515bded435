#!/usr/bin/env bash
# clang-format and clang-tidy over every C and C++ source, changing nothing.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

say 'clang-format'
git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | xargs .venv/bin/clang-format --dry-run -Werror

say 'clang-tidy'
# It reads how each file is compiled from a configured build folder.
logged cmake-lint .venv/bin/cmake -S . -B build/lint -G Ninja -DLLAMAHERD_TESTS=ON \
  -DCMAKE_MAKE_PROGRAM="$PWD/.venv/bin/ninja" -DPython_EXECUTABLE="$VENV_PYTHON"
git ls-files 'capi_shim/*.cpp' |
  xargs -P "$(nproc)" -n 1 .venv/bin/clang-tidy --quiet -p build/lint
