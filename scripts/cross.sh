#!/usr/bin/env bash
# Compiles libllama, the shim and its C tests for another system, runs the tests in
# emulation, and records the results in docs/systems.json:
#   cross.sh arm64      Linux on 64-bit ARM, under qemu-user
# CROSS_DIR (default: build/cross) stores the sources and the builds.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=scripts/llama_source.sh
source scripts/llama_source.sh

[[ $# == 1 && -f scripts/cross/$1.cmake ]] || die "usage: cross.sh arm64"
SYSTEM=$1
DIR=$(realpath -m "${CROSS_DIR:-build/cross}")
CMAKE=.venv/bin/cmake
VERSION=$(grep -om1 'llama-cpp-python==[0-9.]*' pyproject.toml)
VERSION=${VERSION#*==}

require() {
  command -v "$1" >/dev/null || die "$1 is missing: apt-get install $2"
}

configure() {
  "$CMAKE" -G Ninja -DCMAKE_MAKE_PROGRAM="$PWD/.venv/bin/ninja" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE="$PWD/scripts/cross/$SYSTEM.cmake" "$@"
}

# For the oldest processor that ggml supports, because the target's processor is unknown.
build_llama() {
  local options=(-DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF)
  local part
  for part in COMMON TOOLS EXAMPLES TESTS SERVER APP; do
    options+=("-DLLAMA_BUILD_$part=OFF")
  done
  configure -S "$DIR/src/vendor/llama.cpp" -B "$DIR/$SYSTEM" "${options[@]}"
  "$CMAKE" --build "$DIR/$SYSTEM" --target llama
}

# LLAMAHERD_LIBLLAMA needs headers and libraries in one folder.
collect_llama() {
  local root=$DIR/$SYSTEM-root
  rm -rf "$root" && mkdir -p "$root/include" "$root/lib"
  cp "$DIR"/src/vendor/llama.cpp/{include,ggml/include}/*.h "$root/include"
  find "$DIR/$SYSTEM" -name '*.so*' -exec cp -P {} "$root/lib" \;
}

build_shim() {
  mkdir -p "$DIR/include" && cp -r /usr/include/doctest "$DIR/include"
  configure -S . -B "$DIR/$SYSTEM-shim" -DLLAMAHERD_LIBLLAMA="$DIR/$SYSTEM-root" \
    -DLLAMAHERD_TESTS=ON -DDOCTEST_INCLUDE_DIR="$DIR/include"
  "$CMAKE" --build "$DIR/$SYSTEM-shim"
}

run_tests() {
  LLAMAHERD_TEST_SCENARIOS=${SCENARIOS:-100} \
    .venv/bin/ctest --test-dir "$DIR/$SYSTEM-shim" --output-on-failure --timeout 3000 "$@"
}

record() { "$VENV_PYTHON" scripts/systems.py record "$SYSTEM" "$@"; }

require aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
require qemu-aarch64-static qemu-user-static
[[ -d $DIR/src/vendor ]] || logged cross-source fetch_llama_source "$VERSION" "$DIR/src"
say "libllama for $SYSTEM (20 minutes on one core, once)"
logged "cross-$SYSTEM-llama" build_llama
collect_llama
say "the shim and its tests for $SYSTEM"
logged "cross-$SYSTEM-shim" build_shim
record compiles compiled
say "the C tests in emulation"
logged "cross-$SYSTEM-units" run_tests --tests-regex '^units$'
record c_tests emulated
say "the C programs on a real model in emulation"
logged "cross-$SYSTEM-model" run_tests --tests-regex '^capi$'
record real_model emulated
