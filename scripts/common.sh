# shellcheck shell=bash disable=SC2034 # scripts that source this file use the variables
# Shared by the scripts: paths, messages, and logs of long output.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export PIP_DISABLE_PIP_VERSION_CHECK=1
VENV_PYTHON=$PWD/.venv/bin/python
LLAMA_VERSION=$(grep -om1 'llama-cpp-python==[0-9.]*' pyproject.toml)
LLAMA_VERSION=${LLAMA_VERSION#*==}
R_LIBRARY=$PWD/.rlib
LOG_DIR=build/logs
mkdir -p "$LOG_DIR"

say() { printf '==> %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Formats a number of seconds: 7 s, 3 min 20 s.
duration() {
  if (($1 < 60)); then printf '%d s' "$1"; else printf '%d min %d s' $(($1 / 60)) $(($1 % 60)); fi
}

# Prints every half minute the time since the start and the progress of a ninja build.
heartbeat() {
  local log=$1 start=$SECONDS step
  # The sleep may outlive the heartbeat, so it must not keep a pipe open.
  while sleep 30 &>/dev/null; do
    step=$(grep -ao '\[[0-9]\+/[0-9]\+\]' "$log" | tail -n 1) || true
    printf '    still running after %s %s\n' "$(duration $((SECONDS - start)))" "$step"
  done
}

# logged NAME COMMAND...: runs COMMAND with its output in build/logs/NAME.log. If COMMAND
# fails, prints the end of the log and its path. A function ends at its first command that
# fails, and runs in a subshell: with `|| status=$?`, bash would run the commands after it.
logged() {
  local name=$1 log=$LOG_DIR/$1.log start=$SECONDS status beat
  shift
  : >"$log"
  heartbeat "$log" &
  beat=$!
  set +e
  (
    set -e
    "$@"
  ) >"$log" 2>&1 </dev/null
  status=$?
  set -e
  { kill "$beat" && wait "$beat"; } 2>/dev/null || true
  if ((status != 0)); then
    tail -n 25 "$log" >&2
    die "$name failed (exit status $status); full log: $log"
  fi
  if ((SECONDS - start >= 5)); then
    printf '    done in %s (log: %s)\n' "$(duration $((SECONDS - start)))" "$log"
  fi
}

# limited COMMAND...: runs COMMAND, and ends it after half an hour, because the tests in it
# have no time limits. The output then shows the test or the example that hung. Without a
# limit at a terminal, where Ctrl-C can end it.
limited() {
  if [[ ! -t 0 ]] && command -v timeout >/dev/null; then
    set -- timeout 1800 "$@"
  fi
  "$@"
}

# one_core COMMAND...: runs COMMAND on one processor, so that llamaherd's default is one
# thread, and with a time limit. Threads of one matrix product wait for each other in
# loops: next to other programs, two threads therefore use twice the processor time of one
# thread.
one_core() {
  local cores
  if command -v taskset >/dev/null; then
    cores=$(taskset -cp "$BASHPID")
    set -- taskset -c "$(grep -o '[0-9]*$' <<<"$cores")" "$@"
  fi
  limited "$@"
}

pip() { "$VENV_PYTHON" -m pip "$@"; }

# site_of PYTHON...: prints the folder of a Python's packages.
site_of() { "$@" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'; }

# copy_llama SITE: copies llama-cpp-python from .venv into another folder of Python packages, with
# the files that the build of the shim reads: headers, and the commit in lib/cmake.
copy_llama() {
  local site
  site=$(site_of "$VENV_PYTHON")
  rm -rf "${1:?}"/{llama_cpp,llama_cpp_python-*,include,lib/cmake}
  (cd "$site" && cp -r --parents llama_cpp llama_cpp_python-* include lib/cmake "$1")
}

# r_field Imports: prints the package names in a field of DESCRIPTION, one per line, without
# R's own packages, which come with r-base-core.
r_field() {
  awk -v field="$1:" '/^[^ \t]/ { on = ($1 == field); sub(/^[^:]*:/, "") } on' DESCRIPTION |
    tr ',' '\n' | sed 's/(.*//; s/[ \t]//g' |
    grep -v -x -E '|R|graphics|grDevices|grid|methods|parallel|stats|tools|utils' || true
}

# record COLUMN STATE: adds a cell of the row SYSTEM of the README's table.
# write_records: writes the cells, if any, after all steps of a script have passed.
RECORDS=()
record() { RECORDS+=("$1=$2"); }
write_records() {
  if ((${#RECORDS[@]})); then "$VENV_PYTHON" scripts/systems.py record "$SYSTEM" "${RECORDS[@]}"; fi
}

# record_version NAME RESULT: writes a row of the table of versions, with RECORD=1.
record_version() {
  if [[ ${RECORD:-} == 1 ]]; then "$VENV_PYTHON" scripts/systems.py version "$@"; fi
}
