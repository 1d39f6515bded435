#!/usr/bin/env bash
# Installs what the project needs into its folder, in steps. `make` runs each step when it is
# needed:
#   install.sh llama    .venv itself and llama-cpp-python, compiled for this processor
#   install.sh package  the package llamaherd, from this folder
#   install.sh dev      the tools of scripts/requirements-dev.txt, and requirements-oracles.txt
#   install.sh clients  clients of the server, in build/clients (tests/clients/requirements.txt)
#   install.sh docs     the tools that build the site of the Python package
#   install.sh r        the R package, into the project's library .rlib
# shellcheck disable=SC2329 # the steps are called by their names
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

LLAMA_PIN=llama-cpp-python==$LLAMA_VERSION
declare -A SAID=(
  [package]='building and installing the Python package'
  [dev]='installing the test and lint tools'
  [clients]='installing client programs of the server'
  [docs]='installing packages that build the site of the Python package'
  [r]='installing the R package into .rlib'
)

make_llama() {
  local python
  # A newer script alone is no reason to remove .venv with all tools.
  # Not grep -q: it ends before pip has written all, and pip then fails.
  if .venv/bin/pip show llama-cpp-python 2>/dev/null | grep -x "Version: $LLAMA_VERSION" >/dev/null; then
    say "keeping .venv, which has $LLAMA_PIN"
    return
  fi
  python=$(scripts/setup_system.sh python) || die 'no Python 3.11 or later that R can load'
  say "making .venv with $("$python" --version) ($python)"
  logged venv "$python" -m venv --clear .venv

  if pip cache list llama_cpp_python 2>/dev/null | grep "$LLAMA_VERSION" >/dev/null; then
    say "installing $LLAMA_PIN, which is already compiled on this machine"
  else
    say "installing $LLAMA_PIN: compiling llama.cpp (3 to 6 minutes on 2 cores, once)"
  fi
  # GCC without the fix of its bug 114098 breaks ggml's code for AMX (decision 0022), and
  # ggml's attention is slow with AVX512-FP16 for many models (decision 0024).
  has() { grep -qw "$1" /proc/cpuinfo 2>/dev/null; }
  if has amx_tile; then export CXXFLAGS="${CXXFLAGS:-} -fno-dse"; fi
  if has avx512_fp16; then export CXXFLAGS="${CXXFLAGS:-} -U__AVX512FP16__"; fi
  # Verbose, so that the log and the heartbeat show the progress of the compiler.
  logged llama-cpp-python pip install --verbose "$LLAMA_PIN"
}

# The build uses the llama-cpp-python of this environment, because an isolated build might
# compile it again. The build folder is kept, so that later builds are incremental.
install_package() {
  pip install -r scripts/requirements-build.txt
  pip install --no-build-isolation --config-settings=build-dir=build/wheel '.[docx,plot,research,server]'
}

install_dev() {
  pip install -r scripts/requirements-dev.txt
  pip install --no-deps -r scripts/requirements-oracles.txt
}

# --no-deps, because the list is complete. These pins contradict the pins of the tools, so
# pip would search for a solution for minutes.
install_clients() {
  "$VENV_PYTHON" -m venv --clear build/clients
  build/clients/bin/python -m pip install --no-deps -r tests/clients/requirements.txt
}

install_docs() { pip install -r scripts/requirements-docs.txt; }

install_r() {
  mkdir -p "$R_LIBRARY"
  R CMD INSTALL --no-test-load --library="$R_LIBRARY" r_package
}

if [[ $1 == llama ]]; then
  make_llama
else
  say "${SAID[$1]}"
  logged "install-$1" "install_$1"
fi
