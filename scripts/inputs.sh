#!/usr/bin/env bash
# inputs.sh PLACE...: prints the files of these folders for make, and a list of them, whose time
# changes when a file is added or removed. (Folders' times also change when Python caches bytecode.)
set -euo pipefail
places=$*
list=build/inputs/${places//[\/ ]/-}
mkdir -p build/inputs
find "$@" \( -name __pycache__ -o -name '.*' \) -prune -o -type f -print | sort | tee "$list.$$"
if cmp -s "$list.$$" "$list"; then rm "$list.$$"; else mv "$list.$$" "$list"; fi
echo "$list"
