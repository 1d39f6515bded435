#!/usr/bin/env bash
# Tests llamaherd on another system: compiles its wheels, the shim and its C tests, runs
# tests in emulation, and records the results in docs/systems.json if all steps pass:
#   cross.sh arm64          all steps for Linux on 64-bit ARM, under qemu-user
#   cross.sh arm64 STEP...  some steps: wheels, shim, c_tests, python, real_model, r, bare
# The last four steps need root. CROSS_DIR (default: build/cross) stores the builds.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=scripts/debian.sh
source scripts/debian.sh

[[ $# -ge 1 && $1 == arm64 ]] || die "usage: cross.sh arm64 [STEP...]"
SYSTEM=$1
shift
# shellcheck source=scripts/cross/build.sh
source scripts/cross/build.sh
ARCH=aarch64
SUITE=bookworm
ROOT=$DIR/$SYSTEM-root     # libllama and its headers
DEBIAN=$DIR/$SYSTEM-debian # with Python and R; /site has the packages of Python

make_wheels() {
  ARCH=$ARCH scripts/wheels.sh llama package
  record compiles compiled
}

# LLAMAHERD_LIBLLAMA needs headers and libraries in one folder. New files would compile all
# tests again, so a wheel is unpacked once.
unpack_llama() {
  local wheel
  wheel=$(echo "$HOUSE"/llama_cpp_python-*_"$ARCH".whl)
  if [[ $ROOT/include -nt $wheel ]]; then return; fi
  rm -rf "$ROOT" && mkdir -p "$ROOT"
  "$VENV_PYTHON" -m zipfile -e "$wheel" "$ROOT/wheel"
  ln -s wheel/include "$ROOT/include"
  ln -s wheel/llama_cpp/lib "$ROOT/lib"
}

# A cross linker does not read in a library where the libraries are that it needs.
build_shim_for_wheel() {
  unpack_llama
  build_shim \
    -DCMAKE_EXE_LINKER_FLAGS="-Wl,-rpath-link,$ROOT/lib:$ROOT/wheel/llama_cpp_python.libs"
}

make_shim() {
  say "the shim and its tests for $SYSTEM"
  logged "cross-$SYSTEM-shim" build_shim_for_wheel
}

make_c_tests() {
  say "the C tests in emulation"
  logged "cross-$SYSTEM-units" run_tests --tests-regex '^units$'
  record c_tests emulated
}

install_python() {
  local platforms=() wheel minor
  if mountpoint -q "$DEBIAN/proc"; then umount "$DEBIAN/proc"; fi
  rm -rf --one-file-system "$DEBIAN"
  cp -a "$(debian_base "$SUITE" "$ARCH" r)" "$DEBIAN"
  wheel=$(echo "$HOUSE"/llamaherd-*_"$ARCH".whl)
  for minor in {17..36}; do platforms+=(--platform "manylinux_2_${minor}_$ARCH"); done
  install_wheels "$DEBIAN/site" "${platforms[@]}" "${wheel}[docx,parquet,plot,research,server]"
  mkdir "$DEBIAN/project"
  cp -r pyproject.toml README.md docs tests "$DEBIAN/project"
}

# Mounts Debian's /proc until the current step, which is a subshell, ends.
mount_proc() {
  mkdir -p "$DEBIAN/proc"
  if ! mountpoint -q "$DEBIAN/proc"; then mount -t proc proc "$DEBIAN/proc"; fi
  trap 'umount "$DEBIAN/proc"' EXIT
}

# inside COMMAND...: runs a command in Debian, with the packages.
inside() {
  mount_proc
  env -i HOME=/root PATH=/usr/bin:/bin:/usr/sbin LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPATH=/site RETICULATE_PYTHON=/usr/bin/python3 R_LIBS=/project/.rlib \
    QEMU_CPU="$QEMU_CPU" chroot "$DEBIAN" /bin/sh -c 'cd /project && exec "$@"' sh "$@"
}

run_python() {
  inside python3 -m pytest -q -p no:cacheprovider --timeout=3000 "$@"
}

make_python() {
  need_debian "$SUITE" "$ARCH" r
  say "the Python tests in Debian for $SYSTEM, in emulation"
  logged "cross-$SYSTEM-install" install_python
  logged "cross-$SYSTEM-python" run_python -m "not model and not slow" "${PYTHON_TESTS[@]}"
  record python emulated
}

# use_debian FILE...: continues with the Debian of the step python, and copies FILE and a
# model into it.
use_debian() {
  [[ -d $DEBIAN/site/llamaherd ]] || die "run the step python first"
  need_debian "$SUITE" "$ARCH" r
  cp "${LLAMAHERD_TEST_SMOLLM2:?names no model file}" "$DEBIAN/project/model.gguf"
  cp -r "$@" "$DEBIAN/project"
}

make_real_model() {
  use_debian scripts/wheels/first_label.py
  say "a label by a real model in Debian for $SYSTEM, in emulation"
  logged "cross-$SYSTEM-model" inside python3 first_label.py model.gguf
  record real_model emulated
}

# The R package is installed from its sources. Each file of its tests runs in a process of its
# own, as many at a time as this machine has processors. Tests that need a model are skipped.
make_r() {
  rm -rf "$DEBIAN"/project/{r_package,.rlib}
  use_debian r_package scripts/testthat.R scripts/testthat_files.sh scripts/wheels/first_label.R
  say "the R package and its tests in Debian for $SYSTEM, in emulation"
  mkdir -p "$DEBIAN/project/.rlib"
  logged "cross-$SYSTEM-r-install" inside R CMD INSTALL --no-test-load --library=.rlib r_package
  logged "cross-$SYSTEM-r" inside ./testthat_files.sh "$(nproc)" r_package/tests/testthat
  tail -n 1 "$LOG_DIR/cross-$SYSTEM-r.log"
  say "a label by a real model in R"
  logged "cross-$SYSTEM-r-model" inside Rscript --vanilla first_label.R model.gguf
  record r emulated
}

# Records that pip installs the wheels without a compiler.
make_bare() {
  ARCH=$ARCH scripts/wheels/bare.sh "$SUITE" "${LLAMAHERD_TEST_SMOLLM2:?names no model file}"
}

require aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
require qemu-aarch64-static qemu-user-static
if (($# == 0)); then set -- wheels shim c_tests python real_model r bare; fi
for step in "$@"; do "make_$step"; done
write_records
