#!/usr/bin/env bash
# Builds what a package index takes, an sdist and a wheel, in build/dist, and tests both:
#   1. the wheel that pip builds from the sdist equals, byte for byte, the wheel of this folder
#   2. metadata that an index checks
#   3. pip installs the wheel in an empty environment, where it labels a text
#   4. the tests that the sdist contains pass there
# The libllama is the one that pip has compiled before (its cache), as for every user.
#   built.sh MODEL
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

MODEL=$(realpath "${1:?usage: built.sh MODEL}")
DIR=$PWD/build/dist
TEST=$DIR/venv/bin/python
# Compiled without much optimization, all files of a room together.
export CMAKE_ARGS="-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 \
-DCMAKE_C_FLAGS_RELEASE=-O1 -DCMAKE_CXX_FLAGS_RELEASE=-O1 ${CMAKE_ARGS:-}"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1700000000)
export SOURCE_DATE_EPOCH

build_sdist() {
  rm -rf "$DIR" && mkdir -p "$DIR"/{wheel,other}
  "$VENV_PYTHON" -c 'import sys; from scikit_build_core import build; build.build_sdist(sys.argv[1])' "$DIR"
}

# From the sdist in pip's isolated environment, and from this folder in the environment of
# development, in two build folders.
build_wheels() {
  pip wheel --no-deps --wheel-dir "$DIR/wheel" "$DIR"/llamaherd-*.tar.gz
  pip wheel --no-deps --no-build-isolation --config-settings=build-dir="$DIR/build" \
    --wheel-dir "$DIR/other" .
}

compare_wheels() {
  cmp "$DIR"/wheel/*.whl "$DIR"/other/*.whl && return
  diff <(contents "$DIR"/wheel/*.whl) <(contents "$DIR"/other/*.whl)
  return 1
}

# contents WHEEL: prints the checksum, size, time and name of each file.
contents() {
  "$VENV_PYTHON" -c 'import sys, zipfile
for file in zipfile.ZipFile(sys.argv[1]).infolist():
    print(file.CRC, file.file_size, file.date_time, file.external_attr, file.filename)' "$1"
}

check_metadata() {
  "$VENV_PYTHON" -m twine check --strict "$DIR"/*.tar.gz "$DIR"/wheel/*.whl
}

label_text() {

  "$VENV_PYTHON" -m venv --clear "$DIR/venv"
  "$TEST" -m pip install "$DIR"/wheel/*.whl
  "$TEST" -m pip check
  cd / && "$TEST" "$OLDPWD/scripts/wheels/first_label.py" "$MODEL"
}

# The tests find the installed package, not the sources beside them.
test_sdist() {
  mkdir "$DIR/sdist"
  tar -xzf "$DIR"/llamaherd-*.tar.gz -C "$DIR/sdist" --strip-components=1
  cd "$DIR/sdist"
  grep -E '^(gguf|hypothesis|pandas|pyarrow|pydantic|pytest|pytest-[a-z]*|polars)==' scripts/requirements-dev.txt >../requirements.txt
  "$TEST" -m pip install --only-binary :all: -r ../requirements.txt \
    "$(echo "$DIR"/wheel/*.whl)[docx,parquet,plot,research,server]"
  "$TEST" -m pytest -q -n 2 -m 'not model and not slow' tests/python/{core,native,schedule,structured}
}

say 'an sdist and two wheels of the same sources'
logged built-sdist build_sdist
logged built-wheels build_wheels
logged built-same compare_wheels
logged built-metadata check_metadata
say 'pip install of the wheel in an empty environment'
logged built-label label_text
tail -n 2 "$LOG_DIR/built-label.log"
say 'the tests that the sdist contains'
logged built-tests test_sdist
tail -n 1 "$LOG_DIR/built-tests.log"
record_version built "equal wheels; a text is labelled; $(tail -n 1 "$LOG_DIR/built-tests.log" | sed 's/ in .*//')"
ls -l "$DIR"/*.tar.gz "$DIR"/wheel/*.whl
