#!/usr/bin/env bash
# Compiles libllama, the shim and its C tests for Windows with mingw-w64, runs them and the
# most important Python tests under Wine, and records the results in docs/systems.json:
#   cross_windows.sh          all steps
#   cross_windows.sh STEP...  some steps: llama, shim, c_tests, python, real_model
# CROSS_DIR (default: build/cross) stores the sources and the builds.
#
# These C tests are not compiled for Windows, because they test what Windows lacks:
#   base/test_fork_guard.cpp     fork: all its tests
#   platform/test_threads.cpp    teams of threads, which use Linux' futex; address-space
#                                limits and fork; errors instead of ggml's assertions
#   base/test_memory.cpp         the malloc of glibc
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
SYSTEM=windows
# shellcheck source=scripts/cross/build.sh
source scripts/cross/build.sh

TARGET=x86_64-w64-mingw32
WINE=/usr/lib/wine/wine64
PYTHON_DIR=$DIR/windows-python
SITE=$DIR/windows-site
PROJECT=$DIR/windows-project

# on_windows PATH: prints the path as programs under Wine name it.
on_windows() {
  local path=Z:$1
  printf '%s' "${path//\//\\}"
}

# Wine's own settings: a Windows of its own, no messages, and no offer to install .NET.
export WINEPREFIX=$DIR/wine WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml=' LC_ALL=C.UTF-8
export WINEPATH
WINEPATH="$(on_windows "$DIR/windows-root/lib");$(on_windows "$DIR/windows-shim/capi_shim")"

# libgcc, libstdc++ and winpthreads are shared libraries, because an exception may pass from
# one library to another.
runtime() {
  local name
  for name in libstdc++-6.dll libgcc_s_seh-1.dll libwinpthread-1.dll; do
    "$TARGET-g++-posix" -print-file-name="$name"
  done
}

# SSE4.2, because GCC aligns the stack for AVX wrongly on Windows (GCC's bug 54412). Debian's
# headers lack the names THREAD_POWER_THROTTLING_*; the struct and numbers for processes are
# the same.
make_llama() {
  local libraries name flags=-DTHREAD_POWER_THROTTLING_STATE=PROCESS_POWER_THROTTLING_STATE
  for name in CURRENT_VERSION EXECUTION_SPEED; do
    flags+=" -DTHREAD_POWER_THROTTLING_$name=PROCESS_POWER_THROTTLING_$name"
  done
  fetch_source
  say "libllama for Windows (20 minutes on one core, once)"
  logged cross-windows-llama build_llama -DGGML_SSE42=ON -DGGML_OPENMP=OFF -DCMAKE_C_FLAGS="$flags"
  collect_llama '*.dll' '*.dll.a'
  mapfile -t libraries < <(runtime)
  cp "${libraries[@]}" "$DIR/windows-root/lib"
}

make_shim() {
  local library=$DIR/windows-shim/capi_shim/libllamaherd.dll
  say "the shim and its tests for Windows"
  logged cross-windows-shim build_shim
  "$VENV_PYTHON" scripts/cross/pe.py "$library" capi_shim/llamaherd.h capi_shim/newrllama_capi.h
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

# The Python of python.org for embedding, which this package of PyPI contains. Its standard
# library is moved to the usual folders, so that PYTHONPATH has an effect.
make_python_dir() {
  local unpacked=$DIR/windows-wheel
  rm -rf "$PYTHON_DIR" "$unpacked" && mkdir -p "$unpacked"
  "$VENV_PYTHON" -m pip --disable-pip-version-check download -q --no-deps --require-hashes \
    --dest "$unpacked" -r scripts/requirements-windows.txt
  "$VENV_PYTHON" -m zipfile -e "$unpacked"/*.whl "$unpacked"
  mv "$unpacked/QPT_SDK/QEnvPython/python311" "$PYTHON_DIR"
  rm -rf "$unpacked" "$PYTHON_DIR"/{Lib,DLLs,Scripts,python311._pth}
  mkdir -p "$PYTHON_DIR"/DLLs
  mv "$PYTHON_DIR"/*.pyd "$PYTHON_DIR"/{libcrypto,libssl,libffi,sqlite3}*.dll "$PYTHON_DIR/DLLs"
  "$VENV_PYTHON" -m zipfile -e "$PYTHON_DIR/python311.zip" "$PYTHON_DIR/Lib"
  rm "$PYTHON_DIR/python311.zip"
  touch "$PYTHON_DIR/.made"
}

# Python's headers with a configuration for Windows.
windows_headers() {
  local folder=$DIR/windows-headers
  rm -rf "$folder" && cp -rL "$(python_include)" "$folder"
  cp scripts/cross/pyconfig.h "$folder"
  printf '%s' "$folder"
}

# install_math: NumPy's modules call a library with the complex functions that Wine lacks.
install_math() {
  local made=$DIR/windows-math
  mkdir -p "$made"
  "$VENV_PYTHON" scripts/cross/math_def.py "$SITE/numpy" >"$made/math.def"
  "$TARGET-gcc-posix" -O2 -shared -static-libgcc scripts/cross/complex.c "$made/math.def" \
    -o "$PYTHON_DIR/llamaherd-mathematics-wine.dll"
}

install_python() {
  local root=$DIR/windows-root/lib shim=$DIR/windows-shim/capi_shim
  install_packages "$SITE" --platform win_amd64 colorama tzdata
  install_math
  install_llama "$SITE" "$root"/*.dll
  install_package "$SITE" "$shim/libllamaherd.dll"
  "$TARGET-gcc-posix" -O2 -shared -DPy_LIMITED_API=0x030a0000 -I"$(windows_headers)" -Icapi_shim \
    "$DIR/windows-package/_shim.c" -o "$SITE/llamaherd/native/_shim.pyd" \
    "$shim/libllamaherd.dll.a" "$PYTHON_DIR/python3.dll"
  rm -rf "$PROJECT" && mkdir "$PROJECT"
  cp -r pyproject.toml README.md docs tests "$PROJECT"
}

# inside ARGUMENT...: runs Windows' Python with the packages. Its output is a pipe, because
# Python does not start under Wine if stdout and stderr are the same file.
inside() {
  (cd "$PROJECT" && PYTHONPATH=$(on_windows "$SITE") PYTHONDONTWRITEBYTECODE=1 \
    "$WINE" "$PYTHON_DIR/python.exe" "$@" </dev/null 2>&1 | cat)
}

# Tests that meet a fault of Wine 8: msvcrt.locking refuses a lock without an errno, and
# symbolic links are not created.
NOT_UNDER_WINE=(
  'tests/python/core/test_locks.py::test_a_lock_is_held_by_one[windows]'
  'tests/python/core/test_locks.py::test_a_lock_ends_with_its_process[windows]'
  'tests/python/core/test_locks.py::test_a_lock_does_not_write_through_a_link[windows]'
)

make_python() {
  start_wine
  [[ -f $PYTHON_DIR/.made ]] || logged cross-windows-python-dir make_python_dir
  say "the Python tests under Wine"
  logged cross-windows-install install_python
  logged cross-windows-python inside -m pytest -q -p no:cacheprovider --timeout=3000 \
    -m "not model and not slow" "${PYTHON_TESTS[@]}" \
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

require "$TARGET-g++-posix" g++-mingw-w64-x86-64-posix
require "$WINE" wine64
if (($# == 0)); then set -- llama shim c_tests python real_model; fi
for step in "$@"; do "make_$step"; done
