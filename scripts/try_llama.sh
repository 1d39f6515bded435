#!/usr/bin/env bash
# Tests a llama-cpp-python version other than the pinned version: try_llama.sh VERSION
# 1. Writes the list of what a person must review. 2. Compiles the shim's sources with the
# headers of this version, and prints each name that the headers lack. 3. Compiles this version
# and the shim in a separate environment. 4. Runs there the tests of native/ and of the
# contract. Fails if a step fails; docs/moving-llama.md explains the next steps. .venv does not
# change. ONLY=headers ends after the first two steps, which take a minute.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=scripts/llama_source.sh
source scripts/llama_source.sh

[[ ${1:-} =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || die "usage: make try-llama VERSION=0.3.37"
VERSION=$1
DIR=$PWD/build/try-llama/$VERSION
SOURCE=$PWD/build/llama-names/$VERSION
PYTHON=$DIR/venv/bin/python
MADE=$DIR/venv/.made # the environment is complete

compile_with_headers() {
  local llama=$SOURCE/vendor/llama.cpp log=$DIR/compiler.txt source room failed=0
  local includes=(-isystem "$llama/include" -isystem "$llama/ggml/include" -I capi_shim)
  for room in capi_shim/*/; do includes+=(-I "$room"); done
  for source in capi_shim/*/*.cpp; do
    "${CXX:-c++}" -std=c++17 -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Werror \
      -DLH_LLAMA_CPP_PYTHON_VERSION='"another"' -DLH_LLAMA_COMMIT='"another"' "${includes[@]}" "$source" >"$log" 2>&1 || {
      failed=1
      grep -E 'error:' "$log"
    }
  done
  return "$failed"
}

# libmtmd is not built, because no test here needs it.
make_venv() {
  "$VENV_PYTHON" -m venv --clear "$DIR/venv"
  CMAKE_ARGS="-DLLAVA_BUILD=OFF ${CMAKE_ARGS:-}" "$PYTHON" -m pip install --verbose "llama-cpp-python==$VERSION" \
    -r scripts/requirements-dev.txt
  touch "$MADE"
}

# The pin is replaced in a copy of the sources.
install_shim() {
  rm -rf "$DIR/source" && mkdir -p "$DIR/source"
  git ls-files -z CMakeLists.txt LICENSE README.md pyproject.toml capi_shim python_core |
    tar -c --null -T - | tar -x -C "$DIR/source"
  sed -i -E "s/llama-cpp-python==[0-9.]+/llama-cpp-python==$VERSION/" "$DIR/source/pyproject.toml"
  "$PYTHON" -m pip install --no-build-isolation "$DIR/source[plot,research,server]"
}

# The record of reviewed architectures is that of the pinned version.
run_tests() {
  "$PYTHON" -m pytest -n 2 tests/python/native tests/python/whole \
    --deselect tests/python/native/test_abi.py::test_the_record_is_that_of_the_installed_version
}

mkdir -p "$DIR"
has_llama_source "$VERSION" "$SOURCE" || {
  say "sources of llama-cpp-python $VERSION"
  fetch_llama_source "$VERSION" "$SOURCE" '*/PKG-INFO' '*/vendor/llama.cpp/src/*' \
    '*/vendor/llama.cpp/include/*.h' '*/vendor/llama.cpp/ggml/include/*.h'
}
say "what changed in llama.cpp's checks of files"
logged "try-review-$VERSION" "$VENV_PYTHON" scripts/llama_names.py review "$VERSION" "$DIR/review.md"
grep '^## ' "$DIR/review.md" | head -n 20
say "the shim with the headers of $VERSION"
logged "try-headers-$VERSION" compile_with_headers
[[ ${ONLY:-} != headers ]] || exit 0
[[ -f $MADE ]] || say "llama-cpp-python $VERSION: compiling llama.cpp (3 to 6 minutes on 2 cores)"
[[ -f $MADE ]] || logged "try-llama-$VERSION" make_venv
say "the package with llama-cpp-python $VERSION"
logged "try-package-$VERSION" install_shim
say "tests of native/ and of the contract"
logged "try-tests-$VERSION" run_tests
say "llama-cpp-python $VERSION passes; to review: $DIR/review.md; next: make move-llama VERSION=$VERSION"
