# shellcheck shell=bash
# fetch_llama_source VERSION FOLDER: unpacks the source distribution of llama-cpp-python
# into FOLDER, from the package index. Further arguments are patterns of files to unpack.
fetch_llama_source() {
  local version=$1 folder=$2
  shift 2
  rm -rf "$folder" && mkdir -p "$folder"
  "$VENV_PYTHON" -m pip --disable-pip-version-check download -q --no-deps --no-binary :all: \
    --no-build-isolation --dest "$folder/sdist" "llama-cpp-python==$version"
  tar -xzf "$folder"/sdist/*.tar.gz -C "$folder" --strip-components=1 --wildcards "$@"
  rm -rf "$folder/sdist"
}
