#include "devices.hpp"

#include <algorithm>
#include <cstdio>

#include "llama.h"

namespace lh {
namespace {

constexpr const char* kRpc = "RPC";
constexpr const char* kVulkan = "Vulkan";

template <size_t n>
void copy(char (&to)[n], const char* from) {
  std::snprintf(to, n, "%s", from == nullptr ? "" : from);
}

std::string text_of(const char* text) { return text == nullptr ? "" : text; }

FoundDevice described(ggml_backend_dev_t device) {
  ggml_backend_dev_props props{};
  ggml_backend_dev_get_props(device, &props);
  FoundDevice entry;
  entry.type = ggml_backend_dev_type(device);
  entry.backend = text_of(ggml_backend_reg_name(ggml_backend_dev_backend_reg(device)));
  entry.id = text_of(props.device_id);
  copy(entry.gpu.name, ggml_backend_dev_name(device));
  copy(entry.gpu.description, ggml_backend_dev_description(device));
  entry.gpu.free_bytes = checked_free(props.memory_free, props.memory_total);
  entry.gpu.total_bytes = props.memory_total;
  // Metal reports no integrated GPUs, but its buffers can be the memory of a process.
  entry.gpu.shares_memory =
      entry.type == GGML_BACKEND_DEVICE_TYPE_IGPU || props.caps.buffer_from_host_ptr;
  return entry;
}

bool is_gpu(ggml_backend_dev_t device) {
  const enum ggml_backend_dev_type type = ggml_backend_dev_type(device);
  return type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU;
}

std::vector<FoundDevice> devices() {
  if (!llama_supports_gpu_offload()) return {};
  std::vector<FoundDevice> gpus;
  for (size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    const ggml_backend_dev_t device = ggml_backend_dev_get(i);
    if (is_gpu(device)) gpus.push_back(described(device));
  }
  return used_devices(gpus);
}

}  // namespace

std::vector<FoundDevice> used_devices(const std::vector<FoundDevice>& devices) {
  std::vector<FoundDevice> used;
  std::vector<FoundDevice> discrete;
  std::vector<FoundDevice> integrated;
  for (const FoundDevice& device : devices) {
    const auto is_same = [&](const FoundDevice& other) {
      return !device.id.empty() && other.id == device.id;
    };
    if (device.type == GGML_BACKEND_DEVICE_TYPE_IGPU) {
      if (integrated.empty() || integrated.back().backend == device.backend) {
        integrated.push_back(device);
      }
    } else if (device.backend == kRpc) {
      used.push_back(device);
    } else if (std::none_of(discrete.begin(), discrete.end(), is_same)) {
      discrete.push_back(device);
    }
  }
  const std::vector<FoundDevice>& local = discrete.empty() ? integrated : discrete;
  used.insert(used.end(), local.begin(), local.end());
  return used;
}

bool may_overlap(const std::vector<FoundDevice>& used) {
  return std::count_if(used.begin(), used.end(), [](const FoundDevice& device) {
           return device.backend == kVulkan;
         }) < 2;
}

bool may_overlap_here() { return may_overlap(devices()); }

uint64_t checked_free(uint64_t free, uint64_t total) { return free > total ? 0 : free; }

std::vector<lh_gpu> gpus() {
  std::vector<lh_gpu> all;
  for (const FoundDevice& device : devices()) all.push_back(device.gpu);
  return all;
}

}  // namespace lh
