// Devices of ggml that libllama uses, and their free memory.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "devices.hpp"

namespace {

lh::FoundDevice device(const char* name, const char* backend, const char* id,
                       enum ggml_backend_dev_type type = GGML_BACKEND_DEVICE_TYPE_GPU) {
  lh::FoundDevice new_device;
  new_device.type = type;
  new_device.backend = backend;
  new_device.id = id;
  std::snprintf(new_device.gpu.name, sizeof(new_device.gpu.name), "%s", name);
  return new_device;
}

std::string names(const std::vector<lh::FoundDevice>& devices) {
  std::string all;
  for (const lh::FoundDevice& device : lh::used_devices(devices)) {
    all += std::string(device.gpu.name) + " ";
  }
  return all;
}

constexpr auto kShared = GGML_BACKEND_DEVICE_TYPE_IGPU;

}  // namespace

TEST_CASE("a card that two backends list is used once") {
  CHECK(names({device("CUDA0", "CUDA", "0000:01:00.0"),
               device("CUDA1", "CUDA", "0000:02:00.0"),
               device("Vulkan0", "Vulkan", "0000:01:00.0"),
               device("Vulkan1", "Vulkan", "0000:03:00.0")}) == "CUDA0 CUDA1 Vulkan1 ");
  // Without an address, two devices cannot be known to be the same card.
  CHECK(names({device("Vulkan0", "Vulkan", ""), device("Vulkan1", "Vulkan", "")}) ==
        "Vulkan0 Vulkan1 ");
}

TEST_CASE("GPUs that share the processor's memory are used if there is no other") {
  CHECK(names({device("Vulkan0", "Vulkan", "", kShared),
               device("Vulkan1", "Vulkan", "")}) == "Vulkan1 ");
  CHECK(names({device("Vulkan0", "Vulkan", "", kShared),
               device("Vulkan1", "Vulkan", "", kShared),
               device("SYCL0", "SYCL", "", kShared)}) == "Vulkan0 Vulkan1 ");
  CHECK(names({device("Vulkan0", "Vulkan", "", kShared), device("RPC0", "RPC", "")}) ==
        "RPC0 Vulkan0 ");
}

TEST_CASE("computers of RPC come first") {
  CHECK(names({device("CUDA0", "CUDA", "0000:01:00.0"), device("RPC0", "RPC", "")}) ==
        "RPC0 CUDA0 ");
  CHECK(names({}) == "");
}

TEST_CASE("batches do not overlap on several devices of Vulkan") {
  const lh::FoundDevice vulkan = device("Vulkan0", "Vulkan", "");
  const lh::FoundDevice cuda = device("CUDA0", "CUDA", "0000:01:00.0");
  CHECK(lh::may_overlap({}));
  CHECK(lh::may_overlap({vulkan}));
  CHECK(lh::may_overlap({cuda, cuda, vulkan}));
  CHECK(!lh::may_overlap({vulkan, vulkan}));
}

TEST_CASE("a device never has more free memory than memory") {
  CHECK(lh::checked_free(3, 4) == 3);
  CHECK(lh::checked_free(4, 4) == 4);
  const uint64_t budget = 5;
  CHECK(lh::checked_free(budget - 6, 10) == 0);  // below 0, as an unsigned number
}
