#!/usr/bin/env bash
# Installs the wheels of build/wheelhouse in a system that contains only Debian's
# essential packages and python3-venv, and labels a text there:
#   bare.sh SUITE MODEL      SUITE: bookworm, trixie ...; MODEL: a model file
# Needs root, Linux and mmdebstrap. Prints the seconds of the installation and of the
# first label, and records in docs/systems.json that this works; fails if there is a
# compiler. The script uses a copy of the system, which it removes at the end. With
# ARCH=aarch64 the system is one for 64-bit ARM, in emulation, and the script also prints
# the level that ggml chooses for each of four processors.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/../common.sh"
# shellcheck source=scripts/debian.sh
source scripts/debian.sh

[[ $# == 2 && -f $2 ]] || die "usage: bare.sh SUITE MODEL"
SUITE=$1
MODEL=$(realpath "$2")
ARCH=${ARCH:-$(uname -m)}
NAME=bare-$SUITE-$ARCH
HOUSE=$(realpath -m "${WHEELHOUSE:-build/wheelhouse}")
for package in llamaherd llama_cpp_python; do
  compgen -G "$HOUSE/$package-*_$ARCH.whl" >/dev/null ||
    die "$HOUSE has no wheel of $package for $ARCH: make wheels ARCH=$ARCH"
done
need_debian "$SUITE" "$ARCH"
ROOT=$(mktemp -d /var/tmp/llamaherd-bare-XXXXXX)

finish() {
  if mountpoint -q "$ROOT/proc"; then umount "$ROOT/proc"; fi
  rm -rf --one-file-system "$ROOT"
}
trap finish EXIT

# pip uses the network settings of this machine.
make_system() {
  cp -a "$(debian_base "$SUITE" "$ARCH")/." "$ROOT/"
  cp -L /etc/resolv.conf /etc/hosts "$ROOT/etc/"
  cp -L /etc/ssl/certs/ca-certificates.crt "$ROOT/etc/ssl/certs/"
  mkdir "$ROOT/wheelhouse"
  cp "$HOUSE"/*"_$ARCH.whl" "$ROOT/wheelhouse"
  cp scripts/wheels/first_label.py "$MODEL" "$ROOT"
  mount -t proc proc "$ROOT/proc"
  # shellcheck disable=SC2016 # a variable of the shell inside
  inside 'for name in cc gcc c++ g++ clang cmake make; do
    if command -v "$name"; then exit 1; fi
  done' || die 'the system contains a compiler'
  inside 'python3 -m venv /venv'
}

inside() {
  env -i HOME=/ PATH=/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 QEMU_CPU="$QEMU_CPU" \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_DISABLE_PIP_VERSION_CHECK=1 \
    "${NETWORK[@]}" chroot "$ROOT" /bin/sh -ec "$1"
}

install_it() {
  inside '/venv/bin/pip install --no-cache-dir --only-binary :all: \
    --find-links /wheelhouse /wheelhouse/llamaherd-*.whl'
}

first_label() { inside "/venv/bin/python /first_label.py $1"; }

mapfile -t NETWORK < <(env | grep -iE '^(https?|no)_proxy=|^PIP_INDEX_URL=' || true)
say "a bare $SUITE for $ARCH"
logged "$NAME" make_system
start=$(date +%s)
say 'pip install, without a compiler'
logged "$NAME-install" install_it
installed=$(date +%s)
first_label "/$(basename "$MODEL")"
labelled=$(date +%s)
SYSTEM=linux state=run
if [[ $ARCH == aarch64 ]]; then SYSTEM=arm64; fi
if [[ $ARCH != "$(uname -m)" ]]; then
  state=emulated
  for QEMU_CPU in cortex-a53 neoverse-n1 a64fx max; do
    echo "$QEMU_CPU: $(first_label '')"
  done
fi
record wheel "$state"
[[ ! -x $VENV_PYTHON ]] || write_records
say "$SUITE for $ARCH, $(inside 'python3 --version'): installed in $((installed - start)) s, the first label $((labelled - installed)) s later"
