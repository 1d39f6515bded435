#!/usr/bin/env bash
# Installs the wheels of build/wheelhouse in a system that contains only Debian's
# essential packages and python3-venv, and labels a text there:
#   bare.sh SUITE MODEL      SUITE: bookworm, trixie ...; MODEL: a model file
# Needs root, Linux and mmdebstrap. Prints the seconds of the installation and of the
# first label, and fails if there is a compiler. BARE_BASE (/var/tmp/llamaherd-bare)
# stores the systems; the script uses a copy, which it removes at the end.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/../common.sh"

[[ $# == 2 && -f $2 ]] || die "usage: bare.sh SUITE MODEL"
SUITE=$1
MODEL=$(realpath "$2")
HOUSE=$(realpath "${WHEELHOUSE:-build/wheelhouse}")
command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: apt-get install mmdebstrap"
BASE=${BARE_BASE:-/var/tmp/llamaherd-bare}/$SUITE
ROOT=$(mktemp -d /var/tmp/llamaherd-bare-XXXXXX)

finish() {
  if mountpoint -q "$ROOT/proc"; then umount "$ROOT/proc"; fi
  rm -rf --one-file-system "$ROOT"
}
trap finish EXIT

# apt and pip use the network settings of this machine.
make_base() {
  rm -rf "$BASE"
  mkdir -p "$(dirname "$BASE")"
  apt-config dump | grep -E '^(Acquire::(https?|Retries)|DPkg)' >"$BASE.apt" || true
  mmdebstrap --variant=minbase --include=python3-venv,ca-certificates \
    --aptopt="$BASE.apt" "$SUITE" "$BASE"
  touch "$BASE/.made"
}

make_system() {
  [[ -f $BASE/.made ]] || make_base
  cp -a "$BASE/." "$ROOT/"
  cp -L /etc/resolv.conf /etc/hosts "$ROOT/etc/"
  cp -L /etc/ssl/certs/ca-certificates.crt "$ROOT/etc/ssl/certs/"
  mkdir "$ROOT/wheelhouse"
  cp "$HOUSE"/*"_$(uname -m).whl" "$ROOT/wheelhouse"
  cp scripts/wheels/first_label.py "$MODEL" "$ROOT"
  mount -t proc proc "$ROOT/proc"
  # shellcheck disable=SC2016 # a variable of the shell inside
  inside 'for name in cc gcc c++ g++ clang cmake make; do
    if command -v "$name"; then exit 1; fi
  done' || die 'the system contains a compiler'
  inside 'python3 -m venv /venv'
}

inside() {
  env -i HOME=/ PATH=/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_DISABLE_PIP_VERSION_CHECK=1 \
    "${NETWORK[@]}" chroot "$ROOT" /bin/sh -ec "$1"
}

install_it() {
  inside '/venv/bin/pip install --no-cache-dir --only-binary :all: \
    --find-links /wheelhouse /wheelhouse/llamaherd-*.whl'
}

mapfile -t NETWORK < <(env | grep -iE '^(https?|no)_proxy=|^PIP_INDEX_URL=' || true)
say "a bare $SUITE"
logged "bare-$SUITE" make_system
start=$(date +%s)
say 'pip install, without a compiler'
logged "bare-$SUITE-install" install_it
installed=$(date +%s)
inside "/venv/bin/python /first_label.py /$(basename "$MODEL")"
say "$SUITE, $(inside 'python3 --version'): installed in $((installed - start)) s, the first label $(($(date +%s) - installed)) s later"
