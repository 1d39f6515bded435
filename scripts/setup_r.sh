#!/usr/bin/env bash
# Installs the R package into the project's library, .rlib.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

say 'installing the R package into .rlib'
mkdir -p "$R_LIBRARY"
logged r-package R CMD INSTALL --no-test-load --library="$R_LIBRARY" r_package
