// GPUs that libllama can use.
#pragma once

#include <string>
#include <vector>

#include "ggml-backend.h"
#include "llamaherd.h"

namespace lh {

// Device of ggml other than the processor.
struct FoundDevice {
  enum ggml_backend_dev_type type = GGML_BACKEND_DEVICE_TYPE_GPU;
  std::string backend;  // such as "CUDA"; the same card may be a device of two backends
  std::string id;       // address of the card; "" if the backend reports none
  lh_gpu gpu{};
};

// Returns the devices that libllama uses, in its order: computers of RPC, then GPUs, each
// card once. GPUs that share the memory of the processor are used only if there is no
// other GPU, and only the GPUs of one backend.
//
// Source: `llama_prepare_model_devices` of llama.cpp.
std::vector<FoundDevice> used_devices(const std::vector<FoundDevice>& devices);

// Tests whether batches may overlap on these devices, so that one device computes a batch
// while another computes the next. With several devices of Vulkan, a batch then sometimes
// reads numbers of the batch before it: see docs/gpu.md.
bool may_overlap(const std::vector<FoundDevice>& used);

// Tests whether batches may overlap on the GPUs of this machine.
bool may_overlap_here();

// Returns the free memory of a device with `total` bytes. A backend that subtracts the
// used memory from a smaller budget reports more than `total`: then 0 bytes are free.
uint64_t checked_free(uint64_t free, uint64_t total);

// Returns the GPUs in the order of `main_gpu` and `tensor_split`, with their memory now.
std::vector<lh_gpu> gpus();

}  // namespace lh
