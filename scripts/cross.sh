#!/usr/bin/env bash
# Compiles libllama, the shim and its C tests for another system, runs tests in emulation,
# and records the results in docs/systems.json:
#   cross.sh arm64          all steps for Linux on 64-bit ARM, under qemu-user
#   cross.sh arm64 STEP...  some steps: llama, shim, c_tests, python, real_model
# The last two steps need root, and binfmt_misc with qemu-aarch64 (update-binfmts --enable).
# CROSS_DIR (default: build/cross) stores the sources and the builds.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=scripts/llama_source.sh
source scripts/llama_source.sh

[[ $# -ge 1 && -f scripts/cross/$1.cmake ]] || die "usage: cross.sh arm64 [STEP...]"
SYSTEM=$1
shift
DIR=$(realpath -m "${CROSS_DIR:-build/cross}")
DEBIAN=$DIR/$SYSTEM-debian # with Python; /site has the packages
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

# Compiled for the oldest processor that ggml supports, because the target's processor is
# unknown.
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

make_llama() {
  [[ -d $DIR/src/vendor ]] || logged cross-source fetch_llama_source "$VERSION" "$DIR/src"
  say "libllama for $SYSTEM (20 minutes on one core, once)"
  logged "cross-$SYSTEM-llama" build_llama
  collect_llama
}

make_shim() {
  say "the shim and its tests for $SYSTEM"
  logged "cross-$SYSTEM-shim" build_shim
  record compiles compiled
}

make_c_tests() {
  say "the C tests in emulation"
  logged "cross-$SYSTEM-units" run_tests --tests-regex '^units$'
  record c_tests emulated
}

make_debian() {
  local config=$DIR/apt.conf
  apt-config dump | grep -E '^(Acquire::(https?|Retries)|DPkg)' >"$config" || true
  rm -rf "$DEBIAN"
  mmdebstrap --arch="$SYSTEM" --variant=minbase --include=python3 --aptopt="$config" \
    bookworm "$DEBIAN"
  touch "$DEBIAN/.made"
}

# pip installs the packages outside the emulation, because it would need minutes in
# emulation.
install_packages() {
  local platforms=() packages minor
  for minor in {17..36}; do platforms+=(--platform "manylinux_2_${minor}_aarch64"); done
  mapfile -t packages < <(sed -n '/^dependencies = \[/,/^]/s/^  "\([^"]*\)".*/\1/p' pyproject.toml |
    grep -v -e llama-cpp-python -e python_version)
  rm -rf "$DEBIAN/site"
  "$VENV_PYTHON" -m pip --disable-pip-version-check install -q "${platforms[@]}" \
    --only-binary :all: --python-version 3.11 --implementation cp --target "$DEBIAN/site" \
    "${packages[@]}" diskcache typing-extensions gguf pytest pytest-xdist pytest-timeout hypothesis pandas pyarrow \
    httptools prometheus-client starlette uvicorn uvloop
}

# Creates the folder of an installed llama-cpp-python, with the libllama of build_llama.
install_llama() {
  local site=$DEBIAN/site
  mkdir -p "$site"/{include,lib/cmake/llama,llama_cpp/lib,llama_cpp_python-"$VERSION".dist-info}
  cp "$DIR/$SYSTEM-root"/include/*.h "$site/include"
  cp "$DIR"/src/llama_cpp/*.py "$site/llama_cpp"
  cp -P "$DIR/$SYSTEM-root"/lib/*.so* "$site/llama_cpp/lib"
  cp -L /usr/aarch64-linux-gnu/lib/lib{gomp.so.1,stdc++.so.6,gcc_s.so.1} "$site/llama_cpp/lib"
  cp .venv/lib/python3.*/site-packages/lib/cmake/llama/llama-config.cmake "$site/lib/cmake/llama"
  printf 'Metadata-Version: 2.1\nName: llama_cpp_python\nVersion: %s\n' "$VERSION" \
    >"$site/llama_cpp_python-$VERSION.dist-info/METADATA"
}

# Creates the folder of the installed package, with the shim of build_shim.
install_package() {
  local site=$DEBIAN/site made=$DIR/$SYSTEM-package tool=capi_shim/build_support.py include
  include=$("$VENV_PYTHON" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
  mkdir -p "$made"
  cp -r python_core/llamaherd "$site"
  cp -r .venv/lib/python3.*/site-packages/llamaherd-*.dist-info "$site"
  cp "$DIR/$SYSTEM-shim/capi_shim/libllamaherd.so" "$site/llamaherd"
  echo '#include "llamaherd.h"' >"$made/prelude.h"
  "$VENV_PYTHON" "$tool" cdef capi_shim/llamaherd.h "$made/cdef.txt"
  "$VENV_PYTHON" -m cffi.gen_src read-sources llamaherd.native._shim "$made/cdef.txt" \
    "$made/prelude.h" "$made/_shim.c"
  PYTHONPATH=$site "$VENV_PYTHON" -S "$tool" build-info "$site/llamaherd/native/_build_info.py"
  # shellcheck disable=SC2016 # the dynamic loader's name for the folder of a library
  aarch64-linux-gnu-gcc -O2 -shared -fPIC -DPy_LIMITED_API=0x030a0000 -I"$include" -Icapi_shim \
    "$made/_shim.c" -o "$site/llamaherd/native/_shim.abi3.so" -L"$site/llamaherd" -lllamaherd \
    -Wl,-rpath,'$ORIGIN/..' -Wl,--allow-shlib-undefined
}

install_python() {
  install_packages
  install_llama
  install_package
  rm -rf "$DEBIAN/project" && mkdir "$DEBIAN/project"
  cp -r pyproject.toml README.md docs tests "$DEBIAN/project"
}

mount_proc() {
  mkdir -p "$DEBIAN/proc"
  if ! mountpoint -q "$DEBIAN/proc"; then mount -t proc proc "$DEBIAN/proc"; fi
  trap 'umount "$DEBIAN/proc"' EXIT
}

# inside COMMAND...: runs a command in Debian, with the packages.
inside() {
  env -i HOME=/root PATH=/usr/bin:/bin:/usr/sbin LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPATH=/site LD_LIBRARY_PATH=/site/llama_cpp/lib chroot "$DEBIAN" /bin/sh -c \
    'cd /project && exec "$@"' sh "$@"
}

run_python() {
  inside python3 -m pytest -q -p no:cacheprovider --timeout=3000 "$@"
}

# Runs tests without libllama, which use a fake engine, and tests with tiny random models.
TESTS=(tests/python/core tests/python/schedule tests/python/model/test_kinds.py)

make_python() {
  require mmdebstrap mmdebstrap
  [[ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ]] ||
    die "binfmt_misc does not run programs for $SYSTEM: update-binfmts --enable qemu-aarch64"
  [[ -f $DEBIAN/.made ]] || logged "cross-$SYSTEM-debian" make_debian
  say "the Python tests in Debian for $SYSTEM, in emulation"
  logged "cross-$SYSTEM-install" install_python
  mount_proc
  logged "cross-$SYSTEM-python" run_python -m "not model and not slow" "${TESTS[@]}"
  record python emulated
}

make_real_model() {
  [[ -d $DEBIAN/site/llamaherd ]] || die "run the step python first"
  cp "${LLAMAHERD_TEST_SMOLLM2:?names no model file}" "$DEBIAN/project/model.gguf"
  cp scripts/wheels/first_label.py "$DEBIAN/project"
  mount_proc
  say "a label by a real model in Debian for $SYSTEM, in emulation"
  logged "cross-$SYSTEM-model" inside python3 first_label.py model.gguf
  record real_model emulated
}

record() { "$VENV_PYTHON" scripts/systems.py record "$SYSTEM" "$@"; }

require aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
require qemu-aarch64-static qemu-user-static
if (($# == 0)); then set -- llama shim c_tests python real_model; fi
for step in "$@"; do "make_$step"; done
