// Any bytes as a model file: the check refuses them or returns possible sizes.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "gguf_check.hpp"
#include "guard.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;  // fmemopen takes no empty buffer
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      fmemopen(const_cast<uint8_t*>(data), size, "rb"), std::fclose);
  if (file == nullptr) std::abort();
  try {
    const lh_gguf_info info = lh::read_gguf(file.get(), "fuzz", "model").info;
    if (info.file_bytes != size || info.tensor_bytes > size || info.n_parts < 1) {
      std::abort();
    }
  } catch (const lh::Error&) {
    // Refused, with a reason.
  }
  return 0;
}
