// GPUs that libllama can use.
#pragma once

#include <vector>

#include "llamaherd.h"

namespace lh {

// Returns the GPUs in the order of `main_gpu` and `tensor_split`, with their memory now.
std::vector<lh_gpu> gpus();

}  // namespace lh
