# shellcheck shell=bash
# fetch_llama_source VERSION FOLDER: unpacks the source distribution of llama-cpp-python
# into FOLDER, from the package index. Further arguments are patterns of files to unpack. Their
# times are those of the download, so that a build folder compiles again what another version
# has changed.
fetch_llama_source() {
  local version=$1 folder=$2
  shift 2
  rm -rf "$folder" && mkdir -p "$folder"
  "$VENV_PYTHON" -m pip download -q --no-deps --no-binary :all: \
    --no-build-isolation --dest "$folder/sdist" "llama-cpp-python==$version"
  tar -xzmf "$folder"/sdist/*.tar.gz -C "$folder" --strip-components=1 --wildcards "$@"
  rm -rf "$folder/sdist"
}

# has_llama_source VERSION FOLDER: whether FOLDER contains the sources of this version.
has_llama_source() { grep -qsx "Version: $1" "$2/PKG-INFO"; }
