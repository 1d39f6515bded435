#!/usr/bin/env bash
# Builds the sites of the R and the Python package into build/site, and checks their links.
# Without a model, the R articles show only code.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

rm -rf build/site
mkdir -p build/site
say 'building the site of the Python package'
NO_MKDOCS_2_WARNING=1 logged docs-python .venv/bin/mkdocs build --strict
say 'building the site of the R package'
logged docs-r Rscript --vanilla scripts/docs_r.R
say 'checking links'
"$VENV_PYTHON" scripts/docs_links.py build/site
say 'build/site/r/index.html, build/site/python/index.html'
