// Checks of LoRA files before libllama loads them.
#pragma once

#include <cstdint>
#include <string>

#include "llamaherd.h"

namespace lh {

// Checks the files among `adapters` (may be null; after check_adapters) by their headers
// and the header of the model in `model_path`. Refuses files on which libllama would end
// the process. Files that libllama would refuse are refused here with clearer messages.
// Returns the total bytes of their tensors.
uint64_t check_loras(const lh_adapters* adapters, const std::string& model_path);

}  // namespace lh
