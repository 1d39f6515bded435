/* Layers of real models on the GPU, for the test programs in plain C. */
#pragma once

#include <stdint.h>
#include <stdlib.h>

#include "check.h"
#include "llamaherd.h"

/* Returns LLAMAHERD_TEST_GPU_LAYERS, as for the Python tests: -1 means all layers.
 * Without a GPU, libllama would compute the layers on the processor. */
static int32_t gpu_layers(void) {
  const char* text = getenv("LLAMAHERD_TEST_GPU_LAYERS");
  const int32_t n = text == NULL ? 0 : (int32_t)strtol(text, NULL, 10);
  CHECK(n == 0 || lh_supports_gpu_offload() == 1);
  return n;
}
