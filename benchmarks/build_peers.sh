#!/usr/bin/env bash
# Builds llama-server and llama-batched-bench into build/peers, from the llama.cpp source
# inside the source distribution of the llama-cpp-python that this project uses. The
# benchmark runs them with the libllama and libggml of that package (LD_LIBRARY_PATH), so
# that only the programs themselves come from here. 4 to 10 minutes on two cores, once.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/../scripts/common.sh"
# shellcheck source=scripts/llama_source.sh
source scripts/llama_source.sh

FOLDER=build/peers
PROGRAMS=(llama-server llama-batched-bench)
VERSION=$("$VENV_PYTHON" -c \
  'import importlib.metadata as m; print(m.version("llama-cpp-python"))')
STAMP=$FOLDER/.llama-cpp-python-$VERSION

build() {
  .venv/bin/cmake -G Ninja -S "$FOLDER/source/vendor/llama.cpp" -B "$FOLDER" \
    -DCMAKE_MAKE_PROGRAM="$PWD/.venv/bin/ninja" -DCMAKE_BUILD_TYPE=Release \
    -DBUILD_SHARED_LIBS=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF
  .venv/bin/cmake --build "$FOLDER" --target "${PROGRAMS[@]}"
}

[[ -e $STAMP ]] && exit
say "fetching llama.cpp's source (llama-cpp-python $VERSION)"
logged peers-fetch fetch_llama_source "$VERSION" "$FOLDER/source" '*'
say "building ${PROGRAMS[*]} (4 to 10 minutes on 2 cores, once)"
logged peers-build build
touch "$STAMP"
