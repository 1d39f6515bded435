#!/usr/bin/env bash
# Resolves llamaherd together with other programs; see resolve.py.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

"$VENV_PYTHON" scripts/resolve.py neighbours | tee "$LOG_DIR/neighbours.log"
record_version neighbours "$(wc -l <"$LOG_DIR/neighbours.log") programs in their newest versions"
