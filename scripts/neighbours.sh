#!/usr/bin/env bash
# Resolves llamaherd together with other programs (see resolve.py), and tests schemas with the
# older versions of llguidance that some of them need.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

"$VENV_PYTHON" scripts/resolve.py neighbours | tee "$LOG_DIR/neighbours.log"
record_version neighbours "$(wc -l <"$LOG_DIR/neighbours.log") programs in their newest versions"

export LLAMAHERD_TEST_LLGUIDANCE=$PWD/build/llguidance
for version in 1.5.0 1.7.0 1.7.6 1.8.0; do
  "$VENV_PYTHON" -m pip install -q --no-deps --only-binary :all: \
    --upgrade --target "$LLAMAHERD_TEST_LLGUIDANCE/$version" "llguidance==$version"
done
"$VENV_PYTHON" -m pytest -q tests/python/structured/test_exact_numbers.py -k older_version
