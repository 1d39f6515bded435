#!/usr/bin/env bash
# Compiles and links the shim for macOS (ARM and x86-64) with Zig's compiler, and checks
# its names and paths. No program runs, and libllama is not compiled, because its
# functions are looked up when the library is loaded. CROSS_DIR (default: build/cross)
# stores the compiler, headers and objects.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=scripts/llama_source.sh
source scripts/llama_source.sh

DIR=$(realpath -m "${CROSS_DIR:-build/cross}")
VERSION=$(grep -om1 'llama-cpp-python==[0-9.]*' pyproject.toml)
VERSION=${VERSION#*==}
HEADERS=$PWD/build/llama-headers/$VERSION
ZIG=$DIR/zig/bin/python

make_zig() {
  "$VENV_PYTHON" -m venv --clear "$DIR/zig"
  "$ZIG" -m pip --disable-pip-version-check install -q -r scripts/requirements-cross.txt
  touch "$DIR/zig/.made"
}

# The flags of capi_shim/CMakeLists.txt. The warning about a repeated -c is turned off,
# because Zig passes -c twice to its compiler.
compile() {
  local target=$1 folder=$DIR/macos-$1 includes=(-isystem "$HEADERS" -I capi_shim) room source
  for room in capi_shim/*/; do includes+=(-I "$room"); done
  rm -rf "$folder" && mkdir -p "$folder"
  for source in capi_shim/*/*.cpp; do
    "$ZIG" -m ziglang c++ -target "$target" -std=c++17 -fvisibility=hidden \
      -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -Wno-unused-command-line-argument \
      -DLH_LLAMA_CPP_PYTHON_VERSION='"another"' "${includes[@]}" \
      -c "$source" -o "$folder/$(basename "$source" .cpp).o"
  done
  "$ZIG" -m ziglang c++ -target "$target" -shared "$folder"/*.o \
    -o "$folder/libllamaherd.dylib" -Wl,-undefined,dynamic_lookup \
    -Wl,-install_name,@rpath/libllamaherd.dylib -Wl,-rpath,@loader_path/../llama_cpp/lib
}

[[ -f $DIR/zig/.made ]] || logged cross-zig make_zig
[[ -f $HEADERS/llama.h ]] || scripts/check_llama_pin.sh "$VERSION"
for target in aarch64-macos x86_64-macos; do
  say "the shim for $target"
  logged "cross-$target" compile "$target"
  "$ZIG" scripts/cross/macho.py "$DIR/macos-$target/libllamaherd.dylib" capi_shim/*.h
done
