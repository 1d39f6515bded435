# shellcheck shell=bash
# Cells of the README's table of systems, recorded only if all steps of a script pass. The script
# sets SYSTEM, and calls write_records at its end.

# record COLUMN STATE: adds a cell to those that are recorded at the end.
RECORDS=()
record() { RECORDS+=("$SYSTEM $*"); }

write_records() {
  local cell
  for cell in "${RECORDS[@]}"; do
    # shellcheck disable=SC2086 # the arguments of a cell
    "$VENV_PYTHON" scripts/systems.py record $cell
  done
}
