# shellcheck shell=bash disable=SC2034 # the scripts use the variables
# Functions of scripts/cross.sh, scripts/cross_windows.sh and scripts/cross_macos.sh, which
# set SYSTEM: they build libllama, the shim and its C tests with the CMake toolchain
# scripts/cross/SYSTEM.cmake, and run the C tests in emulation. CROSS_DIR (default:
# build/cross) stores the sources and builds.
# shellcheck source=scripts/llama_source.sh
source scripts/llama_source.sh

DIR=$(realpath -m "${CROSS_DIR:-build/cross}")
CMAKE=.venv/bin/cmake
VERSION=$LLAMA_VERSION
# Threads of a build.
JOBS=${JOBS:-$(nproc)}
HOUSE=$(realpath -m "${WHEELHOUSE:-build/wheelhouse}")
# Python tests without libllama, which use a fake engine, and tests with tiny random models.
PYTHON_TESTS=(tests/python/core tests/python/schedule tests/python/model/test_kinds.py)

require() {
  command -v "$1" >/dev/null || die "$1 is missing: apt-get install $2"
}

configure() {
  "$CMAKE" -G Ninja -DCMAKE_MAKE_PROGRAM="$PWD/.venv/bin/ninja" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE="$PWD/scripts/cross/$SYSTEM.cmake" "$@"
}

# build_llama OPTION...: compiled for the oldest processor that ggml supports, because the
# target's processor is unknown.
build_llama() {
  local options=(-DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF)
  local part
  for part in COMMON TOOLS EXAMPLES TESTS SERVER APP; do
    options+=("-DLLAMA_BUILD_$part=OFF")
  done
  configure -S "$DIR/src/vendor/llama.cpp" -B "$DIR/$SYSTEM" "${options[@]}" "$@"
  "$CMAKE" --build "$DIR/$SYSTEM" --target llama --parallel "$JOBS"
}

# collect_llama PATTERN...: LLAMAHERD_LIBLLAMA needs headers and libraries (files of these
# names) in one folder. The copies keep their times: new files would compile all tests again.
collect_llama() {
  local root=$DIR/$SYSTEM-root pattern
  rm -rf "$root" && mkdir -p "$root/include" "$root/lib"
  cp -p "$DIR"/src/vendor/llama.cpp/{include,ggml/include}/*.h "$root/include"
  for pattern in "$@"; do
    find "$DIR/$SYSTEM" -name "$pattern" -exec cp -pP {} "$root/lib" \;
  done
}

# build_shim OPTION...
build_shim() {
  mkdir -p "$DIR/include" && cp -r /usr/include/doctest "$DIR/include"
  configure -S . -B "$DIR/$SYSTEM-shim" -DLLAMAHERD_LIBLLAMA="$DIR/$SYSTEM-root" \
    -DLLAMAHERD_TESTS=ON -DDOCTEST_INCLUDE_DIR="$DIR/include" "$@"
  "$CMAKE" --build "$DIR/$SYSTEM-shim" --parallel "$JOBS"
}

# run_tests OPTION...: options of ctest.
run_tests() {
  LLAMAHERD_TEST_SCENARIOS=${SCENARIOS:-100} \
    .venv/bin/ctest --test-dir "$DIR/$SYSTEM-shim" --output-on-failure --timeout 3000 "$@"
}

# fetch_source: the source of libllama, once per version.
fetch_source() {
  has_llama_source "$VERSION" "$DIR/src" || logged cross-source fetch_llama_source "$VERSION" "$DIR/src"
}

# install_wheels SITE ARGUMENT...: installs packages for the Python tests, from HOUSE and the
# package index, into SITE. ARGUMENT: --platform NAME and packages. pip runs outside the
# emulation, where it would need minutes.
install_wheels() {
  local site=$1
  shift
  rm -rf "$site"
  "$VENV_PYTHON" -m pip install -q --only-binary :all: \
    --python-version 3.11 --implementation cp --target "$site" --find-links "$HOUSE" "$@" \
    gguf pytest pytest-xdist pytest-timeout hypothesis pandas
}

# install_llama SITE LIBRARY...: creates the folder of an installed llama-cpp-python, whose
# sources scripts/wheels/portable.py has changed.
install_llama() {
  local site=$1 info=$1/llama_cpp_python-$VERSION+portable.dist-info
  shift
  mkdir -p "$site"/{include,lib/cmake/llama} "$info/licenses"
  cp "$DIR/$SYSTEM-root"/include/*.h "$site/include"
  cp -r "$DIR/src/llama_cpp" "$site"
  mkdir -p "$site/llama_cpp/lib"
  cp -P "$@" "$site/llama_cpp/lib"
  cp .venv/lib/python3.*/site-packages/lib/cmake/llama/llama-config.cmake "$site/lib/cmake/llama"
  sed "s/^Version: $VERSION\$/&+portable/" "$DIR/src/PKG-INFO" >"$info/METADATA"
  cp "$DIR/src/LICENSE.md" "$info/licenses"
}

# python_include: prints the folder of Python's headers.
python_include() {
  "$VENV_PYTHON" -c 'import sysconfig; print(sysconfig.get_paths()["include"])'
}
