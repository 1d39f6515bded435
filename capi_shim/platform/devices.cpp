#include "devices.hpp"

#include <cstdio>

#include "ggml-backend.h"
#include "llama.h"

namespace lh {
namespace {

template <size_t n>
void copy(char (&to)[n], const char* from) {
  std::snprintf(to, n, "%s", from == nullptr ? "" : from);
}

std::vector<lh_gpu> gpus_of(enum ggml_backend_dev_type type) {
  std::vector<lh_gpu> found;
  for (size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    const ggml_backend_dev_t device = ggml_backend_dev_get(i);
    if (ggml_backend_dev_type(device) != type) continue;
    size_t free = 0;
    size_t total = 0;
    ggml_backend_dev_memory(device, &free, &total);
    lh_gpu gpu{};
    copy(gpu.name, ggml_backend_dev_name(device));
    copy(gpu.description, ggml_backend_dev_description(device));
    gpu.free_bytes = free;
    gpu.total_bytes = total;
    found.push_back(gpu);
  }
  return found;
}

}  // namespace

// libllama uses a GPU that shares the memory of the processor only if there is no other.
std::vector<lh_gpu> gpus() {
  if (!llama_supports_gpu_offload()) return {};
  std::vector<lh_gpu> found = gpus_of(GGML_BACKEND_DEVICE_TYPE_GPU);
  return found.empty() ? gpus_of(GGML_BACKEND_DEVICE_TYPE_IGPU) : found;
}

}  // namespace lh
