#!/usr/bin/env bash
# Runs R CMD build and R CMD check on the R package as CRAN does, without the parts that need a
# network or LaTeX. Fails on errors, warnings and notes.
#   check_r.sh [PYTHON...]   each PYTHON is one of
#     ours      the Python package of .venv (the default)
#     lacking   a Python without llamaherd
#     other     a Python with another version of llamaherd
#     none      no Python at all, as on CRAN's machines (as root, in a mount namespace of its own)
# Tests run with `ours` and `other` only in part: they show that the package contains its tests and
# that they run from the package. `make test` and `make test-imports` run all.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

folder=$PWD/build/r-check
sources=$PWD/r_package venv=$PWD/.venv
(($#)) || set -- ours

build() {
  rm -rf "$folder" && mkdir -p "$folder"
  (cd "$folder" && one_core R CMD build "$sources")
}

# without_python COMMAND...: where no Python can be found
without_python() {
  ((EUID == 0)) || die 'check_r.sh none needs root'
  # shellcheck disable=SC2016 # variables of the shell inside
  env -u RETICULATE_PYTHON -u LLAMAHERD_PYTHON -u VIRTUAL_ENV HOME="$folder/home" unshare --mount bash -c '
    for path in /usr/bin/python3* /usr/bin/python /usr/local/bin/python*; do
      if [[ -e $path ]]; then mount --bind /dev/null "$path"; fi
    done
    PATH=$(tr : "\n" <<<"$PATH" | grep -v -e pyenv -e "$1" | paste -sd :)
    shift
    if python3 --version 2>/dev/null; then exit 9; fi
    "$@"' bash "$venv" "$@"
}

# An environment with the folder of the package of .venv, which names another version.
make_other() {
  local site
  "$VENV_PYTHON" -m venv --clear "$folder/other"
  site=$(site_of "$folder/other/bin/python")
  "$VENV_PYTHON" - "$site" <<'PYTHON'
import sys
from importlib.metadata import distribution
from pathlib import Path

site = Path(sys.argv[1])
ours = distribution("llamaherd")
real = Path(str(ours.locate_file("")))
info = site / "llamaherd-0.0.1.dist-info"
info.mkdir()
metadata = ours.read_text("METADATA").replace(f"Version: {ours.version}", "Version: 0.0.1", 1)
(info / "METADATA").write_text(metadata, encoding="utf-8")
(site / "ours.pth").write_text(f"{real}\n")
PYTHON
}

# check MODE
check() {
  local mode=$1 status runner=one_core
  # The first and the last setting would contact servers.
  export _R_CHECK_CRAN_INCOMING_=false _R_CHECK_FORCE_SUGGESTS_=false
  export _R_CHECK_SYSTEM_CLOCK_=false
  export LLAMAHERD_TEST_FILES='^(ag-news-sample|codebook|generate|help|python)$'
  mkdir -p "$folder/$mode" "$folder/home"
  case $mode in
    ours) ;;
    lacking)
      "$VENV_PYTHON" -m venv --clear "$folder/lacking-python"
      export RETICULATE_PYTHON=$folder/lacking-python/bin/python LLAMAHERD_TEST_FILES=
      ;;
    other)
      make_other
      export RETICULATE_PYTHON=$folder/other/bin/python
      ;;
    none)
      runner=without_python
      export LLAMAHERD_TEST_FILES=
      ;;
    *) die "unknown: $mode" ;;
  esac
  cd "$folder/$mode"
  # The vignettes are not built again, because R CMD build has built them.
  "$runner" R CMD check --no-manual --no-build-vignettes --as-cran ../llamaherd_*.tar.gz | tee check.log
  status=$(tail -n 20 check.log | grep '^Status:')
  [[ $status == 'Status: OK' ]] || die "R CMD check ($mode): $status"
}

say 'R CMD build'
logged r-build build
for mode in "$@"; do
  say "R CMD check: $mode"
  (check "$mode")
  record_version "$mode" "$(R --version | sed -n '1s/R version \([^ ]*\).*/R \1/p'): no error, warning or note"
done
