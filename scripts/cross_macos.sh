#!/usr/bin/env bash
# Compiles libllama and the shim for macOS (ARM and x86-64) with Zig's compiler, checks
# the names, paths, needed libraries and functions, and records the result in
# docs/systems.json if all checks pass:
#   cross_macos.sh                 both processors
#   cross_macos.sh PROCESSOR...    aarch64 (the row of the table) or x86_64
# No program runs, so nothing is optimized. libllama is compiled without Metal and
# Accelerate, whose headers Zig lacks. CROSS_DIR (default: build/cross) stores the
# compiler, the sources and the builds.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=scripts/cross/build.sh
source scripts/cross/build.sh

ZIG=$DIR/zig/bin/python
# The oldest macOS of the wheels (.github/workflows/wheels.yml).
OLDEST=13.3
TOOLS=$DIR/macos-tools

make_zig() {
  "$VENV_PYTHON" -m venv --clear "$DIR/zig"
  "$ZIG" -m pip install -q -r scripts/requirements-cross.txt
  touch "$DIR/zig/.made"
}

# make_tool NAME ARGUMENT...: creates a command that calls Zig with these arguments.
make_tool() {
  local tool=$TOOLS/$1
  shift
  printf '#!/bin/sh\nexec "%s" -m ziglang %s "$@"\n' "$ZIG" "$*" >"$tool"
  chmod +x "$tool"
}

# The commands that scripts/cross/macos.cmake names.
make_tools() {
  local processor name
  mkdir -p "$TOOLS"
  for processor in aarch64 x86_64; do
    for name in cc c++; do
      make_tool "$processor-macos-$name" "$name" -target "$processor-macos.$OLDEST"
    done
  done
  for name in ar ranlib; do make_tool "macos-$name" "$name"; done
}

# Without optimization, Zig would turn on its sanitizer of undefined behaviour.
UNOPTIMIZED=(-O0 -DNDEBUG -fno-sanitize=undefined)

# llama-cpp-python sets the same search path. Only an installation needs install_name_tool.
make_llama() {
  local options=(-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON -DCMAKE_INSTALL_RPATH=@loader_path
    -DCMAKE_INSTALL_NAME_TOOL=/bin/false) name
  for name in C CXX; do options+=("-DCMAKE_${name}_FLAGS_RELEASE=${UNOPTIMIZED[*]}"); done
  for name in METAL ACCELERATE BLAS OPENMP CCACHE; do options+=("-DGGML_$name=OFF"); done
  say "libllama for macOS, $PROCESSOR (some minutes on one core, once)"
  logged "cross-$SYSTEM-llama" build_llama "${options[@]}"
  collect_llama '*.dylib'
}

# The flags of capi_shim/CMakeLists.txt, which names options that Zig's linker lacks
# (-exported_symbol). The warning about a repeated -c is turned off, because Zig passes -c
# twice to its compiler. The linker reports functions that no library has.
compile_shim() {
  local folder=$DIR/$SYSTEM-shim root=$DIR/$SYSTEM-root room
  local compiler=$PROCESSOR-macos-c++ includes=(-isystem "$root/include" -I "$PWD/capi_shim")
  for room in "$PWD"/capi_shim/*/; do includes+=(-I "$room"); done
  rm -rf "$folder" && mkdir -p "$folder"
  printf '%s\0' "$PWD"/capi_shim/*/*.cpp | (
    cd "$folder" # the objects are written here
    xargs -0 -n 1 -P "$JOBS" "$compiler" -std=c++17 -fvisibility=hidden "${UNOPTIMIZED[@]}" \
      -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -Wno-unused-command-line-argument \
      -DLH_LLAMA_CPP_PYTHON_VERSION='"another"' -DLH_LLAMA_COMMIT='"another"' "${includes[@]}" -c
  )
  "$compiler" -shared "$folder"/*.o -o "$folder/libllamaherd.dylib" \
    -L"$root/lib" -lllama -lggml -lggml-base \
    -Wl,-install_name,@rpath/libllamaherd.dylib -Wl,-rpath,@loader_path/../llama_cpp/lib
}

check() {
  local libraries=$DIR/$SYSTEM-root/lib name
  local check=("$VENV_PYTHON" scripts/cross/exports.py --folder "$libraries" --oldest "$OLDEST")
  for name in llama ggml ggml-base ggml-cpu; do
    "${check[@]}" "$libraries/lib$name.dylib" --rpath @loader_path
  done
  "${check[@]}" "$DIR/$SYSTEM-shim/libllamaherd.dylib" --rpath @loader_path/../llama_cpp/lib \
    --headers capi_shim/*.h
}

for PROCESSOR in "$@"; do
  [[ $PROCESSOR =~ ^(aarch64|x86_64)$ ]] || die "usage: cross_macos.sh [aarch64 | x86_64]..."
done
[[ -f $DIR/zig/.made ]] || logged cross-zig make_zig
make_tools
PATH=$TOOLS:$PATH
fetch_source
if (($# == 0)); then set -- aarch64 x86_64; fi
for PROCESSOR in "$@"; do
  SYSTEM=macos-$PROCESSOR
  make_llama
  say "the shim for macOS, $PROCESSOR"
  logged "cross-$SYSTEM-shim" compile_shim
  check
done
record compiles compiled
if [[ " $* " == *" aarch64 "* ]]; then SYSTEM=macos write_records; fi
