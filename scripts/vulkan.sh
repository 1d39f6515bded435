#!/usr/bin/env bash
# Tests llamaherd on llama.cpp's Vulkan backend without a GPU: Mesa's lavapipe computes on the
# processor what a GPU would compute. Compiles ggml with Vulkan, the package and
# the C tests in a Debian of its own, runs tests there, and records the results in
# docs/systems.json if all steps pass:
#   vulkan.sh          all steps
#   vulkan.sh STEP...  some steps: llama, package, c_tests, python, real_model, r
# Needs root, Linux and mmdebstrap. CROSS_DIR (build/cross) stores the Debian with its builds.
# lavapipe shows whether results are right. It says nothing about the speed of a GPU.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=scripts/debian.sh
source scripts/debian.sh
# shellcheck source=scripts/llama_source.sh
source scripts/llama_source.sh

SUITE=${SUITE:-trixie} # ggml's Vulkan backend needs newer headers than those of Debian 12
SYSTEM=vulkan
DIR=$(realpath -m "${CROSS_DIR:-build/cross}")
DEBIAN=$DIR/$SYSTEM-debian
VERSION=$LLAMA_VERSION
JOBS=${JOBS:-$(nproc)}
MODELS=(SMOLLM2 GEMMA3 MINILM)

# need_system: creates the Debian of these tests, which keeps its builds between runs.
need_system() {
  need_debian "$SUITE" "$(uname -m)" vulkan
  [[ -f $DEBIAN/.made ]] || logged vulkan-debian make_system
}

# pip uses the network settings of this machine.
make_system() {
  mkdir -p "$DIR"
  rm -rf --one-file-system "$DEBIAN"
  cp -a "$(debian_base "$SUITE" "$(uname -m)" vulkan)" "$DEBIAN"
  cp -L /etc/resolv.conf /etc/hosts "$DEBIAN/etc/"
  cp -L /etc/ssl/certs/ca-certificates.crt "$DEBIAN/etc/ssl/certs/"
  mkdir -p "$DEBIAN"/{models,proc,dev/shm}
}

# inside COMMAND...: runs a command in the Debian's folder /project. The driver is the only
# one that the loader of Vulkan finds, and ggml uses a processor only if its number is named.
# Without nopt, LLVM optimizes each shader, which takes minutes.
inside() {
  if ! mountpoint -q "$DEBIAN/proc"; then mount -t proc proc "$DEBIAN/proc"; fi
  if ! mountpoint -q "$DEBIAN/dev/shm"; then mount -t tmpfs tmpfs "$DEBIAN/dev/shm"; fi
  trap 'umount "$DEBIAN/proc" "$DEBIAN/dev/shm"' EXIT
  env -i HOME=/root PATH=/venv/bin:/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_DISABLE_PIP_VERSION_CHECK=1 \
    CMAKE_BUILD_PARALLEL_LEVEL="$JOBS" "${NETWORK[@]}" \
    GGML_VK_VISIBLE_DEVICES="$DEVICES" \
    VK_DRIVER_FILES="/usr/share/vulkan/icd.d/lvp_icd.json" GALLIVM_PERF=nopt \
    LLAMAHERD_TEST_SMOLLM2=/models/SMOLLM2.gguf LLAMAHERD_TEST_GEMMA3=/models/GEMMA3.gguf \
    LLAMAHERD_TEST_MINILM=/models/MINILM.gguf LLAMAHERD_TEST_SCENARIOS=100 "${SETTINGS[@]}" \
    chroot "$DEBIAN" /bin/sh -c 'mkdir -p /project && cd /project && exec "$@"' sh "$@"
}
mapfile -t NETWORK < <(env | grep -iE '^(https?|no)_proxy=|^PIP_INDEX_URL=' || true)
SETTINGS=() # variables of the environment
DEVICES=0   # numbers of Vulkan's devices that ggml uses

# Omits the shaders for matrix cores, which are most of them: lavapipe runs none. The build
# compiles a test for each extension; the tests now name extensions that do not exist.
omit_matrix_cores() {
  local tests=$DEBIAN/llama/vendor/llama.cpp/ggml/src/ggml-vulkan/vulkan-shaders/feature-tests
  sed -i 's/_cooperative_matrix2\?/&_none/' "$tests"/coopmat{,2}.comp
}

# Python's package of libllama is that of .venv, because a newer Debian runs its libraries.
# ggml is compiled with Vulkan, from the same sources, and replaces the libraries of ggml.
# Sources and builds are kept, so that a build that was interrupted continues.
install_llama() {
  local packages folder=/llama/vendor/llama.cpp part options=(-DGGML_VULKAN=ON)
  if [[ ! -d $DEBIAN/llama/vendor ]]; then
    fetch_llama_source "$VERSION" "$DEBIAN/llama"
    omit_matrix_cores
  fi
  [[ -x $DEBIAN/venv/bin/python ]] || inside python3 -m venv /venv
  inside pip install -r /dev/stdin <scripts/requirements-build.txt
  for part in COMMON TOOLS EXAMPLES TESTS SERVER APP; do
    options+=("-DLLAMA_BUILD_$part=OFF")
  done
  inside cmake -S "$folder" -B /build/ggml -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DBUILD_SHARED_LIBS=ON -DLLAMA_CURL=OFF -DCMAKE_INSTALL_RPATH="\$ORIGIN" \
    -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON "${options[@]}"
  inside cmake --build /build/ggml --target ggml
  packages=$(echo "$DEBIAN"/venv/lib/python3.*/site-packages)
  copy_llama "$packages"
  rm "$packages"/llama_cpp/lib/libggml*
  cp -P "$DEBIAN"/build/ggml/bin/libggml* "$packages/llama_cpp/lib"
}

make_llama() {
  need_system
  say "ggml of llama-cpp-python $VERSION with Vulkan in $SUITE (10 to 20 minutes on two cores, once)"
  logged vulkan-llama install_llama
}

# copy_project: the files that git knows or does not ignore.
copy_project() {
  rm -rf "$DEBIAN/project" && mkdir "$DEBIAN/project"
  git ls-files -z --cached --others --exclude-standard | tar -c --null -T - |
    tar -x -C "$DEBIAN/project"
}

install_package() {
  copy_project
  inside pip install gguf pytest pytest-xdist pytest-timeout hypothesis
  inside pip install --no-build-isolation --config-settings=build-dir=/build/package \
    '.[docx,parquet,plot,research,server]'
}

make_package() {
  [[ -x $DEBIAN/venv/bin/python ]] || die "run the step llama first"
  say "the package"
  logged vulkan-package install_package
  record compiles compiled
}

# use_models: copies the real models of the tests into the Debian.
use_models() {
  local name variable
  for name in "${MODELS[@]}"; do
    variable=LLAMAHERD_TEST_$name
    [[ -f ${!variable:-} ]] || die "$variable names no model file: make models"
    cmp -s "${!variable}" "$DEBIAN/models/$name.gguf" || cp "${!variable}" "$DEBIAN/models/$name.gguf"
  done
}

run_c_tests() {
  inside cmake -S . -B /build/c -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DPython_EXECUTABLE=/venv/bin/python -DLLAMAHERD_TESTS=ON
  inside cmake --build /build/c
  inside ctest --test-dir /build/c --output-on-failure --timeout 3000
  # These two load their models with all layers on the "GPU".
  SETTINGS=(LLAMAHERD_TEST_GPU_LAYERS=-1)
  inside ctest --test-dir /build/c --output-on-failure --timeout 3000 \
    --tests-regex '^(engine|embed)$'
}

make_c_tests() {
  use_models
  say "the C tests"
  logged vulkan-c run_c_tests
  record c_tests emulated
}

# on_gpu TEST...: runs Python tests with all layers on the "GPU".
on_gpu() {
  SETTINGS=(LLAMAHERD_TEST_GPU_LAYERS=-1)
  inside python -m pytest -q -p no:cacheprovider --timeout=3000 "$@"
}

# The driver counts as two GPUs, so that the tests of several GPUs are run.
make_python() {
  say "the Python tests with tiny models"
  DEVICES=0,0
  logged vulkan-python on_gpu -m 'not model' tests/python/whole/test_gpu.py
  DEVICES=0
  logged vulkan-memory on_gpu tests/python/memory/test_device.py
  record python emulated
}

make_real_model() {
  use_models
  say "real models"
  logged vulkan-model on_gpu -m model tests/python/whole/test_gpu.py
  record real_model emulated
}

# R and the R packages of DESCRIPTION are added to the Debian.
install_r() {
  local packages
  mapfile -t -d , packages < <(r_packages)
  inside apt-get -q update
  inside env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${packages[@]}"
  copy_project
  inside mkdir -p /r
  inside R CMD INSTALL --no-test-load --library=/r r_package
}

# testthat_files FOLDER SETTING...: runs R tests, each file in a process of its own.
testthat_files() {
  SETTINGS=(R_LIBS=/r RETICULATE_PYTHON=/venv/bin/python "${@:2}")
  inside scripts/testthat_files.sh "$JOBS" "$1"
}

make_r() {
  [[ -x $DEBIAN/venv/bin/llamaherd ]] || die "run the step package first"
  use_models
  say "the R package and its tests"
  logged vulkan-r-install install_r
  # The package's tests leave layers on the processor. libllama nevertheless lets the GPU
  # multiply long batches, which takes minutes here; so tests that need a model are skipped.
  logged vulkan-r testthat_files r_package/tests/testthat LLAMAHERD_TEST_SMOLLM2=
  tail -n 1 "$LOG_DIR/vulkan-r.log"
  say "real models in R"
  logged vulkan-r-model testthat_files tests/cross/gpu
  record r emulated
}

if (($# == 0)); then set -- llama package c_tests python real_model r; fi
for step in "$@"; do "make_$step"; done
write_records
