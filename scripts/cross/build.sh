# shellcheck shell=bash disable=SC2034 # the scripts use the variables
# Functions of scripts/cross.sh, scripts/cross_windows.sh and scripts/cross_macos.sh, which
# set SYSTEM: they build libllama, the shim and its C tests with the CMake toolchain
# scripts/cross/SYSTEM.cmake, and run the C tests in emulation. CROSS_DIR (default:
# build/cross) stores the sources and builds.
# shellcheck source=scripts/llama_source.sh
source scripts/llama_source.sh

DIR=$(realpath -m "${CROSS_DIR:-build/cross}")
CMAKE=.venv/bin/cmake
VERSION=$(grep -om1 'llama-cpp-python==[0-9.]*' pyproject.toml)
VERSION=${VERSION#*==}
# Threads of a build.
JOBS=${JOBS:-$(nproc)}
# Packages that the Python tests need beside the dependencies.
TEST_PACKAGES=(diskcache typing-extensions gguf pytest pytest-xdist pytest-timeout hypothesis
  pandas pyarrow httptools prometheus-client starlette uvicorn)
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
# names) in one folder.
collect_llama() {
  local root=$DIR/$SYSTEM-root pattern
  rm -rf "$root" && mkdir -p "$root/include" "$root/lib"
  cp "$DIR"/src/vendor/llama.cpp/{include,ggml/include}/*.h "$root/include"
  for pattern in "$@"; do
    find "$DIR/$SYSTEM" -name "$pattern" -exec cp -P {} "$root/lib" \;
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

# fetch_source: the source of libllama, once.
fetch_source() {
  [[ -d $DIR/src/vendor ]] || logged cross-source fetch_llama_source "$VERSION" "$DIR/src"
}

# install_packages SITE OPTION...: installs the dependencies and TEST_PACKAGES into SITE.
# pip runs outside the emulation, where it would need minutes. OPTION: --platform NAME and
# further packages.
install_packages() {
  local site=$1 packages
  shift
  mapfile -t packages < <(sed -n '/^dependencies = \[/,/^]/s/^  "\([^"]*\)".*/\1/p' pyproject.toml |
    grep -v -e llama-cpp-python -e python_version)
  rm -rf "$site"
  "$VENV_PYTHON" -m pip --disable-pip-version-check install -q --only-binary :all: \
    --python-version 3.11 --implementation cp --target "$site" "${packages[@]}" \
    "${TEST_PACKAGES[@]}" "$@"
}

# install_llama SITE LIBRARY...: creates the folder of an installed llama-cpp-python.
install_llama() {
  local site=$1
  shift
  mkdir -p "$site"/{include,lib/cmake/llama,llama_cpp/lib,llama_cpp_python-"$VERSION".dist-info}
  cp "$DIR/$SYSTEM-root"/include/*.h "$site/include"
  cp "$DIR"/src/llama_cpp/*.py "$site/llama_cpp"
  cp -P "$@" "$site/llama_cpp/lib"
  cp .venv/lib/python3.*/site-packages/lib/cmake/llama/llama-config.cmake "$site/lib/cmake/llama"
  printf 'Metadata-Version: 2.1\nName: llama_cpp_python\nVersion: %s\n' "$VERSION" \
    >"$site/llama_cpp_python-$VERSION.dist-info/METADATA"
}

# install_package SITE LIBRARY: creates the folder of the installed package with the shim,
# and writes the source of its extension module to "$DIR/$SYSTEM-package/_shim.c".
install_package() {
  local site=$1 library=$2 made=$DIR/$SYSTEM-package tool=capi_shim/build_support.py
  mkdir -p "$made"
  cp -r python_core/llamaherd "$site"
  cp -r .venv/lib/python3.*/site-packages/llamaherd-*.dist-info "$site"
  cp "$library" "$site/llamaherd"
  echo '#include "llamaherd.h"' >"$made/prelude.h"
  "$VENV_PYTHON" "$tool" cdef capi_shim/llamaherd.h "$made/cdef.txt"
  "$VENV_PYTHON" -m cffi.gen_src read-sources llamaherd.native._shim "$made/cdef.txt" \
    "$made/prelude.h" "$made/_shim.c"
  PYTHONPATH=$site "$VENV_PYTHON" -S "$tool" build-info "$site/llamaherd/native/_build_info.py"
}

# python_include: prints the folder of Python's headers.
python_include() {
  "$VENV_PYTHON" -c 'import sysconfig; print(sysconfig.get_paths()["include"])'
}

# record COLUMN STATE: writes a cell of the README's table.
record() { "$VENV_PYTHON" scripts/systems.py record "$SYSTEM" "$@"; }
