#!/usr/bin/env bash
# Runs each file of the R package's tests in a process of its own, so that a file that ends or
# blocks R does not hide the results of the other files:
#   testthat_files.sh PROCESSES FOLDER [SECONDS]
# PROCESSES files run at a time; a process is killed after SECONDS (3600). Prints a line for each
# file, and the whole output of files that fail. Needs testthat.R beside this script.
set -euo pipefail
PROGRAM=$(dirname "$0")/testthat.R

run_file() {
  local log status=0
  log=$(mktemp)
  timeout "$4" Rscript --vanilla "$1" "$2" "$3" >"$log" 2>&1 || status=$?
  if ((status)); then cat "$log" && echo "FAILED test-$3.R: exit status $status"; fi
  ((status)) || echo "test-$3.R: $(grep -a '^\[ FAIL' "$log" | tail -n 1)"
  rm "$log"
}
export -f run_file

results=$(mktemp)
trap 'rm -f "$results"' EXIT
find "$2" -name 'test-*.R' -printf '%f\n' | sed 's/^test-//; s/[.]R$//' | sort |
  xargs -P "$1" -I{} bash -c 'run_file "$@"' bash "$PROGRAM" "$2" {} "${3:-3600}" | tee "$results"
passed=$(grep -c '^test-' "$results" || true)
failed=$(grep -c '^FAILED' "$results" || true)
echo "files: $passed passed, $failed failed"
((passed && !failed))
