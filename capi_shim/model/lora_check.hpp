// The files of LoRA adapters, before libllama loads them.
#pragma once

#include <cstdint>
#include <string>

#include "llamaherd.h"

namespace lh {

// Checks the files among `adapters`, after check_adapters and perhaps null, by their
// headers and that of the model in `model_path`: what libllama would end the process on
// is refused, with what it refuses itself in words of ours. Returns the bytes of their
// tensors.
uint64_t check_loras(const lh_adapters* adapters, const std::string& model_path);

}  // namespace lh
