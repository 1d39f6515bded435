#!/usr/bin/env bash
# Makes packages that install without a compiler, in build/wheelhouse:
#   wheels.sh llama     llama-cpp-python for any processor of this architecture
#   wheels.sh package   llamaherd
#   wheels.sh r         the R package, as sources and installed
#   wheels.sh try       installs the wheels in a new environment, and labels a text
# Without an argument, all of these. docs/install.md explains how to use them. This script
# was run on Linux. It contains code for macOS and Windows (Git's bash) that was not run.
# ARCH=aarch64 cross-compiles the first two for 64-bit ARM, on Linux with Debian's compiler.
# WHEEL_DIR (build/wheels) contains sources and builds, WHEELHOUSE the packages.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=scripts/llama_source.sh
source scripts/llama_source.sh

DIR=$(realpath -m "${WHEEL_DIR:-build/wheels}")
HOUSE=$(realpath -m "${WHEELHOUSE:-build/wheelhouse}")
# Python that creates the environments: the Python of .venv, or PYTHON if there is no
# .venv.
BASE_PYTHON=$VENV_PYTHON
if [[ ! -x $BASE_PYTHON ]]; then BASE_PYTHON=${PYTHON:-python3}; fi
BIN=$DIR/venv/bin
# shellcheck disable=SC2016 # the dynamic loader's name for the folder of a library
BESIDE='$ORIGIN'
case $(uname -s) in
  Darwin) BESIDE='@loader_path' ;;
  MINGW* | MSYS*) BIN=$DIR/venv/Scripts ;;
esac
PYTHON=$BIN/python
VENV_PYTHON=$PYTHON
VERSION=$LLAMA_VERSION
HOST=$(uname -m)
ARCH=${ARCH:-$HOST}
WORK=$DIR                # sources and builds
TOOLCHAIN='' LIBRARIES=() # of a cross compiler: options of CMake and auditwheel
if [[ $ARCH != "$HOST" ]]; then
  [[ $ARCH == aarch64 && $(uname -s) == Linux ]] ||
    die "on this machine ($(uname -s), $HOST) the wheels can be built for: $(printf '%s\n' "$HOST" aarch64 | sort -u | paste -sd ' ')"
  command -v aarch64-linux-gnu-g++ >/dev/null ||
    die "aarch64-linux-gnu-g++ is missing: apt-get install g++-aarch64-linux-gnu"
  WORK=$DIR/$ARCH
  TOOLCHAIN="-DCMAKE_TOOLCHAIN_FILE=$PWD/scripts/cross/arm64.cmake"
  LIBRARIES=(--ldpaths "/usr/$ARCH-linux-gnu/lib")
fi

make_venv() {
  mkdir -p "$DIR" "$HOUSE"
  if [[ -x $PYTHON ]] && cmp -s "$DIR/.requirements" <(cat scripts/requirements-{build,wheels}.txt); then return; fi
  "$BASE_PYTHON" -m venv --clear "$DIR/venv"
  pip install -r scripts/requirements-build.txt -r scripts/requirements-wheels.txt
  cat scripts/requirements-{build,wheels}.txt >"$DIR/.requirements"
}

# repair WHEEL OPTION...: moves a wheel into the wheelhouse and removes the older wheel.
# On Linux, auditwheel names it after the oldest glibc with which it runs, and adds
# libraries that a system may lack.
repair() {
  local wheel=$1 name
  shift
  name=$(basename "$wheel")
  if [[ $name != *linux_* ]]; then
    cp "$wheel" "$HOUSE"
    return
  fi
  rm -f "$HOUSE/${name%%-*}"-*_"${name##*linux_}"
  PATH="$BIN:$PATH" auditwheel repair --wheel-dir "$HOUSE" "${LIBRARIES[@]}" "$@" "$wheel"
}

# for_arch COMMAND...: runs COMMAND so that it builds a wheel for ARCH. Debian's Python.h
# includes ARCH-linux-gnu/python3.X/pyconfig.h, which is the same for all systems as far
# as the stable ABI is concerned.
for_arch() {
  if [[ $ARCH == "$HOST" ]]; then
    "$@"
    return
  fi
  local include
  include=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
  mkdir -p "$WORK/include/$ARCH-linux-gnu"
  ln -sfn "$(dirname "$include")/$HOST-linux-gnu/$(basename "$include")" \
    "$WORK/include/$ARCH-linux-gnu/$(basename "$include")"
  CFLAGS="-I$WORK/include ${CFLAGS:-}" CMAKE_ARGS="$TOOLCHAIN ${CMAKE_ARGS:-}" \
    _PYTHON_HOST_PLATFORM="linux-$ARCH" PYTHONPATH="$WORK/site" "$@"
}

# Builds one ggml backend for each level of processors; ggml chooses one when it is
# loaded. The backends are installed beside libggml, and libraries search for each other
# in their own folder, so that no path of the build machine is recorded. Without -fno-dse,
# versions of GCC with bug 114098 break the code for AMX (decision 0022). The wheel
# contains no libmtmd (pictures), and no links to libraries, which it would store as
# copies.
build_llama() {
  local excluded='lib/*.so*;lib/pkgconfig;llama_cpp/lib/*.so.*.*;llama_cpp/lib/libggml-cpu-*.so.*'
  has_llama_source "$VERSION" "$WORK/source" || fetch_llama_source "$VERSION" "$WORK/source"
  "$PYTHON" scripts/wheels/portable.py "$WORK/source"
  rm -rf "$WORK/llama"
  CXXFLAGS="${CXXFLAGS:-} -fno-dse" \
    CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_BACKEND_DL=ON -DGGML_CPU_ALL_VARIANTS=ON \
-DLLAVA_BUILD=OFF -DCMAKE_INSTALL_BINDIR=llama_cpp/lib -DCMAKE_INSTALL_RPATH=$BESIDE ${CMAKE_ARGS:-}" \
    for_arch pip wheel --verbose --no-deps --no-build-isolation --wheel-dir "$WORK/llama" \
    --config-settings=build-dir="$WORK/build-llama" \
    --config-settings=wheel.exclude="$excluded" "$WORK/source"
  repair "$WORK"/llama/*.whl
}

make_llama() {
  say "llama-cpp-python $VERSION for any $ARCH processor (some 10 minutes on 2 cores, once)"
  logged "wheel-llama-$ARCH" build_llama
}

# The llama-cpp-python that llamaherd is linked to. One of another architecture cannot be
# installed, so it is unpacked.
take_llama() {
  if [[ $ARCH == "$HOST" ]]; then
    pip install --no-deps --no-index --force-reinstall --find-links "$HOUSE" "llama-cpp-python==$VERSION"
  else
    rm -rf "$WORK/site"
    "$PYTHON" -m zipfile -e "$HOUSE"/llama_cpp_python-*_"$ARCH".whl "$WORK/site"
  fi
}

# libllama and ggml come from llama-cpp-python's wheel, and are excluded from this one.
build_package() {
  take_llama
  rm -rf "$WORK/package"
  for_arch pip wheel --no-deps --no-build-isolation --wheel-dir "$WORK/package" \
    --config-settings=build-dir="$WORK/build-package" .
  repair "$WORK"/package/*.whl --exclude 'libllama.so*' --exclude 'libggml*.so*'
  PATH="$BIN:$PATH" abi3audit --strict "$WORK"/package/*.whl
}

make_package() {
  say "llamaherd's wheel for $ARCH"
  logged "wheel-package-$ARCH" build_package
}

# R CMD INSTALL --build makes a package for only this version of R and this system.
build_r() (
  rm -f "$HOUSE"/llamaherd_*
  rm -rf "$DIR/r" && mkdir -p "$DIR/r/library"
  sources=$PWD/r_package
  cd "$DIR/r"
  options=()
  command -v pandoc >/dev/null || options+=(--no-build-vignettes)
  R CMD build "${options[@]}" "$sources"
  R_LIBS="$DIR/r/library:$R_LIBRARY" \
    R CMD INSTALL --build --no-test-load --library="$DIR/r/library" llamaherd_*.tar.gz
  cp llamaherd_* "$HOUSE"
)

make_r() {
  say 'the R package, as sources and installed'
  logged wheel-r build_r
}

try_it() {
  "$BASE_PYTHON" -m venv --clear "$DIR/try"
  "$DIR/try/bin/python" -m pip install --only-binary :all: \
    --find-links "$HOUSE" "$HOUSE"/llamaherd-*_"$HOST".whl
  "$DIR/try/bin/python" scripts/wheels/first_label.py "$1"
}

make_try() {
  say 'the wheels in a new environment'
  logged wheel-try try_it "${LLAMAHERD_TEST_SMOLLM2:?names no model file}"
  tail -n 3 "$LOG_DIR/wheel-try.log"
}

logged wheel-venv make_venv
if (($# == 0)); then
  set -- llama package
  if [[ $ARCH == "$HOST" ]]; then set -- "$@" r try; fi
fi
for step in "$@"; do "make_$step"; done
