#!/usr/bin/env bash
# Installs the C library without Python, and compiles the program of docs/c.md against it in three
# ways: plain flags, pkg-config, find_package. Runs each. The libllama is that of .venv, in the
# layout of llama.cpp's own `cmake --install`.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

MODEL=$(realpath "${1:?usage: c_library.sh MODEL}")
DIR=$PWD/build/c-install
PREFIX=$DIR/prefix
SITE=$(site_of "$VENV_PYTHON")

# A folder with include/ and lib/, without llama.cpp's files for CMake: libllama itself tells
# its commit.
make_llama() {
  rm -rf "$DIR/llama" && mkdir -p "$DIR/llama"
  ln -s "$SITE/include" "$DIR/llama/include"
  ln -s "$SITE/llama_cpp/lib" "$DIR/llama/lib"
}

# PATH without a Python, so that a build that needs one fails.
install_library() {
  make_llama
  local cmake=$PWD/.venv/bin/cmake ninja=$PWD/.venv/bin/ninja
  local options=(-DLLAMAHERD_LIBLLAMA="$DIR/llama" -DCMAKE_INSTALL_PREFIX="$PREFIX"
    -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0
    -DCMAKE_{C,CXX}_FLAGS_RELEASE='-O1 -DNDEBUG' -DPython_EXECUTABLE=/no/python)
  "$cmake" -S capi_shim -B "$DIR/build" -G Ninja -DCMAKE_MAKE_PROGRAM="$ninja" "${options[@]}"
  "$cmake" --build "$DIR/build"
  rm -rf "$PREFIX"
  "$cmake" --install "$DIR/build"
}

# block LANGUAGE: prints the first example of docs/c.md in this language.
block() { awk -v start="\`\`\`$1" '$0 == start { on = 1; next } on && /^```$/ { exit } on' docs/c.md; }

# Each program is compiled with warnings as errors, as C99.
build_programs() {
  rm -rf "$DIR/programs" && mkdir -p "$DIR/programs"
  cd "$DIR/programs"
  (cd "$OLDPWD" && block c) >answers.c
  (cd "$OLDPWD" && block cmake) >CMakeLists.txt
  local strict=(-std=c99 -Wall -Wextra -Wpedantic -Werror) flags
  "${CC:-cc}" "${strict[@]}" answers.c -I"$PREFIX/include" -L"$PREFIX/lib" -lllamaherd \
    -Wl,-rpath,"$PREFIX/lib" -o plain
  read -ra flags < <(PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig pkg-config --cflags --libs llamaherd)
  "${CC:-cc}" "${strict[@]}" answers.c "${flags[@]}" -Wl,-rpath,"$PREFIX/lib" -o with-pkg-config
  "$OLDPWD/.venv/bin/cmake" -S . -B build -DCMAKE_PREFIX_PATH="$PREFIX" -DCMAKE_BUILD_TYPE=Release
  "$OLDPWD/.venv/bin/cmake" --build build
  cp build/answers with-find-package
}

# Files of the installation, the name that programs load, and the name of the next interface.
check_files() {
  local name file
  for file in include/llamaherd.h include/newrllama_capi.h lib/libllamaherd.so \
    lib/pkgconfig/llamaherd.pc lib/cmake/llamaherd/llamaherdConfig.cmake \
    lib/cmake/llamaherd/llamaherdConfigVersion.cmake; do
    [[ -e $PREFIX/$file ]] || die "not installed: $file"
  done
  name=$(objdump -p "$PREFIX/lib/libllamaherd.so" | awk '$1 == "SONAME" { print $2 }')
  [[ $name == libllamaherd.so.[0-9]* && -e $PREFIX/lib/$name ]] || die "SONAME is '$name'"
  printf '#include <llamaherd.h>\n#if LH_ABI_VERSION < 1 || LH_VERSION_MAJOR > 99\n#error\n#endif\n' |
    cc -I"$PREFIX/include" -fsyntax-only -x c -
}

run_programs() {
  local name
  ln -s "$MODEL" "$DIR/programs/SmolLM2-135M-Instruct.Q4_1.gguf"
  cd "$DIR/programs"
  for name in plain with-pkg-config with-find-package; do
    "./$name" >"$name.txt"
    grep -q 'The capital of France is' "$name.txt" || die "$name printed: $(cat "$name.txt")"
    cmp plain.txt "$name.txt"
  done
}

mkdir -p "$DIR"
say 'the C library, without Python'
logged c-install install_library
check_files
say 'the program of docs/c.md, compiled in three ways'
logged c-programs build_programs
logged c-run run_programs
cat "$DIR/programs/plain.txt"
record_version c 'plain flags, pkg-config and find_package'
