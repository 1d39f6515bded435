// Detection of model files on which libllama would end the process instead of refusing
// them.
#pragma once

#include <string>

#include "gguf.h"

namespace lh {

// Returns the problem with a file's metadata or tensors, worded to follow the file's
// name; "" if no problem is known. The checks were found by changing single values of
// valid files: see docs/decisions/0015-model-file-checks.md.
std::string gguf_hazard(const gguf_context* header);

}  // namespace lh
