#!/usr/bin/env bash
# Runs R CMD build and R CMD check on the R package as CRAN does, without the parts that
# need a network or LaTeX. Fails on errors, warnings and notes.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

folder=$PWD/build/r-check
rm -rf "$folder"
mkdir -p "$folder"
source_folder=$PWD/r_package
cd "$folder"
say 'R CMD build'
one_core R CMD build "$source_folder" >build.log 2>&1 || { cat build.log; exit 1; }
say 'R CMD check'
# The first and the last setting would contact servers.
export _R_CHECK_CRAN_INCOMING_=false _R_CHECK_FORCE_SUGGESTS_=false
export _R_CHECK_SYSTEM_CLOCK_=false
# Only some of the tests run: they show that the package contains its tests and that they
# run from the package. `make test` and `make test-imports` run all tests. The vignettes
# are not built again, because R CMD build has built them.
export LLAMAHERD_TEST_FILES='^(ag-news-sample|codebook|generate|help|python)$'
one_core R CMD check --no-manual --no-build-vignettes --as-cran llamaherd_*.tar.gz | tee check.log
status=$(tail -n 20 check.log | grep '^Status:')
[[ $status == 'Status: OK' ]] || { printf 'error: R CMD check: %s\n' "$status" >&2; exit 1; }
