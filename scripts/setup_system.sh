#!/usr/bin/env bash
# Checks the system packages: a C++ compiler, a Python that R can load, R, and the R
# packages of DESCRIPTION. Installs missing packages with apt if run as root; otherwise
# prints the command and stops.
#   setup_system.sh run      packages that users need
#   setup_system.sh dev      also packages that tests and linters need
#   setup_system.sh valgrind also valgrind
#   setup_system.sh fuzz     also clang with libFuzzer
#   setup_system.sh docs     packages that the R package's tests need, and pkgdown
#   setup_system.sh windows  also mingw-w64 and Wine
#   setup_system.sh arm64    also a compiler and an emulator for 64-bit ARM
#   setup_system.sh bare     also the program that creates minimal Debian systems
#   setup_system.sh python   prints the Python for the virtual environment
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

python_fits() {
  command -v "$1" >/dev/null && "$1" - <<'PYTHON' >/dev/null 2>&1
import ensurepip, sys, sysconfig, venv
from pathlib import Path
var = sysconfig.get_config_var
shared = [Path(var(d) or "") / (var(n) or "-") for d in ("LIBDIR", "LIBPL") for n in ("LDLIBRARY", "INSTSONAME")]
headers = Path(sysconfig.get_path("include")) / "Python.h"
# reticulate loads Python into R's process, which a static build does not allow.
sys.exit(not (sys.version_info >= (3, 11) and headers.is_file()
              and any(f.suffix != ".a" and f.is_file() for f in shared)))
PYTHON
}

has_libfuzzer() {
  local folder
  folder=$(clang --print-runtime-dir 2>/dev/null) && [[ -n $(find "$folder/.." -name 'libclang_rt.fuzzer*' 2>/dev/null) ]]
}

find_python() {
  local python
  for python in ${PYTHON:+"$PYTHON"} python3 /usr/bin/python3; do
    if python_fits "$python"; then
      "$python" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  return 1
}

# Prints the required R packages of DESCRIPTION that are not installed.
missing_r_packages() {
  if command -v Rscript >/dev/null; then
    Rscript --vanilla -e 'p <- commandArgs(TRUE)' \
      -e 'cat(p[!nzchar(vapply(p, \(x) system.file(package = x), ""))], sep = "\n")' "$@"
  else
    printf '%s\n' "$@"
  fi
}

apt_install() {
  local command="apt-get install -y --no-install-recommends $*"
  if ! command -v apt-get >/dev/null; then
    die "this machine has no apt-get; install the contents of these Debian packages: $*"
  elif ((EUID != 0)); then
    printf 'Some system packages are missing. Run this command, and then the same make command again:\n\n' >&2
    printf '    sudo apt-get update && sudo %s\n\n' "$command" >&2
    exit 1
  fi
  say "installing with apt: $*"
  export DEBIAN_FRONTEND=noninteractive
  logged apt-update apt-get update
  # shellcheck disable=SC2086 # a command line, to be split
  logged apt-install $command
}

main() {
  if [[ $1 == python ]]; then find_python && return; fi
  local debian=() packages=() missing name
  command -v c++ >/dev/null || debian+=(build-essential)
  find_python >/dev/null || debian+=(python3 python3-venv python3-dev)
  command -v Rscript >/dev/null || debian+=(r-base-core)
  if [[ $1 == valgrind ]] && ! command -v valgrind >/dev/null; then debian+=(valgrind); fi

  if [[ $1 == windows ]]; then
    command -v x86_64-w64-mingw32-g++-posix >/dev/null || debian+=(g++-mingw-w64-x86-64-posix)
    [[ -x /usr/lib/wine/wine64 ]] || debian+=(wine64)
  fi
  if [[ $1 == fuzz ]] && ! has_libfuzzer; then debian+=(clang libclang-rt-dev); fi

  if [[ $1 == arm64 ]]; then
    command -v aarch64-linux-gnu-g++ >/dev/null || debian+=(g++-aarch64-linux-gnu)
    command -v qemu-aarch64-static >/dev/null || debian+=(qemu-user-static)
    # mmdebstrap needs it for another architecture, but only recommends it.
    command -v arch-test >/dev/null || debian+=(arch-test)
  fi
  if [[ $1 == arm64 || $1 == bare ]]; then
    command -v mmdebstrap >/dev/null || debian+=(mmdebstrap)
  fi

  # The demo and the README draw plots, for which ggplot2 is a suggested package.
  mapfile -t packages < <(r_field Depends; r_field Imports; echo ggplot2)
  if [[ $1 != run ]]; then
    [[ -f /usr/include/doctest/doctest.h ]] || debian+=(doctest-dev)
    command -v chromium >/dev/null || debian+=(chromium)
    # R CMD check needs qpdf if there are vignettes, even without PDFs.
    command -v pandoc >/dev/null || debian+=(pandoc)
    command -v qpdf >/dev/null || debian+=(qpdf)
    mapfile -t -O "${#packages[@]}" packages < <(r_field Suggests; printf 'lintr\nroxygen2\n')
    if [[ $1 == docs ]]; then packages+=(pkgdown); fi
  fi
  missing=$(missing_r_packages "${packages[@]}")
  if [[ -n $missing && $(command -v Rscript) == /usr/local/* ]]; then
    die "this R is not Debian's, so apt has no packages for it; run in R: install.packages(c($(
      printf '%s\n' "$missing" | sed 's/.*/"&"/' | paste -sd, -)))"
  fi
  for name in $missing; do debian+=("r-cran-${name,,}"); done
  if ((${#debian[@]})); then apt_install "${debian[@]}"; fi
}

main "${1:-run}"
