#!/usr/bin/env bash
# Fetches the chat templates of llama.cpp from the source of the pinned llama-cpp-python:
# fetch_templates.sh FOLDER. Tests render them, and scripts/docs_templates.py describes them.
# The folder gets its name only when it is complete.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=scripts/llama_source.sh
source scripts/llama_source.sh

[[ ! -d $1 ]] || exit 0
version=$LLAMA_VERSION
say "fetching the chat templates of llama-cpp-python $version (77 MB, once) into $1"
mkdir -p "$(dirname "$1")"
part=$(mktemp -d "$1.XXXXXX")
trap 'rm -rf "$part"' EXIT
fetch_llama_source "$version" "$part/source" '*/vendor/llama.cpp/models/templates/*.jinja'
mv "$part/source/vendor/llama.cpp/models/templates" "$1"
