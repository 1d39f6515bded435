#!/usr/bin/env bash
# Builds llama.cpp's llama-server and llama-batched-bench for the benchmark, from the source
# in the sdist of the llama-cpp-python that is pinned, into build/peers/bin. The benchmark
# runs them with the libllama and libggml that llama-cpp-python installed (peers.py).
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/../scripts/common.sh"

LLAMA_PIN=$(grep -om1 'llama-cpp-python==[0-9.]*' pyproject.toml)
PEERS=$PWD/build/peers
PATH=$PWD/.venv/bin:$PATH

fetch() {
  "$VENV_PYTHON" -m pip --disable-pip-version-check download --no-binary :all: --no-deps \
    --no-build-isolation --dest "$PEERS/sdist" "$LLAMA_PIN"
  mkdir -p "$PEERS/source"
  tar -xzf "$PEERS"/sdist/llama_cpp_python-*.tar.gz -C "$PEERS/source" --strip-components=1
}

configure() {
  cmake -S "$PEERS/source/vendor/llama.cpp" -B "$PEERS" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF
}

say "fetching the source of $LLAMA_PIN"
logged peers-fetch fetch
say 'compiling llama-server and llama-batched-bench (3 to 6 minutes on 2 cores, once)'
logged peers-configure configure
logged peers-build cmake --build "$PEERS" --target llama-server llama-batched-bench
