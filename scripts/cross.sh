#!/usr/bin/env bash
# Compiles libllama, the shim and its C tests for another system, runs tests in emulation,
# and records the results in docs/systems.json:
#   cross.sh arm64          all steps for Linux on 64-bit ARM, under qemu-user
#   cross.sh arm64 STEP...  some steps: llama, shim, c_tests, python, real_model
# The last two steps need root, and binfmt_misc with qemu-aarch64 (update-binfmts --enable).
# CROSS_DIR (default: build/cross) stores the sources and the builds.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

[[ $# -ge 1 && $1 == arm64 ]] || die "usage: cross.sh arm64 [STEP...]"
SYSTEM=$1
shift
# shellcheck source=scripts/cross/build.sh
source scripts/cross/build.sh
DEBIAN=$DIR/$SYSTEM-debian # with Python; /site has the packages

make_llama() {
  fetch_source
  say "libllama for $SYSTEM (20 minutes on one core, once)"
  logged "cross-$SYSTEM-llama" build_llama
  collect_llama '*.so*'
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

install_python() {
  local site=$DEBIAN/site platforms=() minor
  for minor in {17..36}; do platforms+=(--platform "manylinux_2_${minor}_aarch64"); done
  install_packages "$site" "${platforms[@]}" uvloop
  install_llama "$site" "$DIR/$SYSTEM-root"/lib/*.so*
  cp -L /usr/aarch64-linux-gnu/lib/lib{gomp.so.1,stdc++.so.6,gcc_s.so.1} "$site/llama_cpp/lib"
  install_package "$site" "$DIR/$SYSTEM-shim/capi_shim/libllamaherd.so"
  # shellcheck disable=SC2016 # the dynamic loader's name for the folder of a library
  aarch64-linux-gnu-gcc -O2 -shared -fPIC -DPy_LIMITED_API=0x030a0000 -I"$(python_include)" \
    -Icapi_shim "$DIR/$SYSTEM-package/_shim.c" -o "$site/llamaherd/native/_shim.abi3.so" \
    -L"$site/llamaherd" -lllamaherd -Wl,-rpath,'$ORIGIN/..' -Wl,--allow-shlib-undefined
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

make_python() {
  require mmdebstrap mmdebstrap
  [[ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ]] ||
    die "binfmt_misc does not run programs for $SYSTEM: update-binfmts --enable qemu-aarch64"
  [[ -f $DEBIAN/.made ]] || logged "cross-$SYSTEM-debian" make_debian
  say "the Python tests in Debian for $SYSTEM, in emulation"
  logged "cross-$SYSTEM-install" install_python
  mount_proc
  logged "cross-$SYSTEM-python" run_python -m "not model and not slow" "${PYTHON_TESTS[@]}"
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

require aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
require qemu-aarch64-static qemu-user-static
if (($# == 0)); then set -- llama shim c_tests python real_model; fi
for step in "$@"; do "make_$step"; done
