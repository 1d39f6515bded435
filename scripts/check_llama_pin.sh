#!/usr/bin/env bash
# Checks the syntax of the shim's sources against the headers of another llama-cpp-python,
# and prints each name that is missing in these headers.
#   check_llama_pin.sh VERSION     headers of a source distribution, from the package index
#   check_llama_pin.sh FOLDER      headers in a folder that has llama.h and ggml.h
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=scripts/llama_source.sh
source scripts/llama_source.sh

[[ $# == 1 ]] || die "usage: check_llama_pin.sh VERSION | FOLDER"
if [[ -f $1/llama.h ]]; then
  headers=$(cd "$1" && pwd)
else
  headers=$PWD/build/llama-headers/$1
  if [[ ! -f $headers/llama.h ]]; then
    say "headers of llama-cpp-python $1"
    fetch_llama_source "$1" "$headers/source" \
      '*/vendor/llama.cpp/include/*.h' '*/vendor/llama.cpp/ggml/include/*.h'
    find "$headers/source" -name '*.h' -exec cp {} "$headers" \;
    rm -rf "$headers/source"
  fi
fi

includes=(-isystem "$headers" -I capi_shim)
for room in capi_shim/*/; do includes+=(-I "$room"); done
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for source in capi_shim/*/*.cpp; do
  if ! "${CXX:-c++}" -std=c++17 -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Werror \
    -DLH_LLAMA_CPP_PYTHON_VERSION='"another"' "${includes[@]}" "$source" 2>"$log"; then
    failed=1
    grep -E "error:" "$log"
  fi
done
if ((failed)); then die "the shim does not compile against $headers: docs/moving-llama.md"; fi
say "the shim compiles against $headers"
