// Detection of model files without a tensor that libllama loads as optional but uses.
#pragma once

#include <string>
#include <unordered_set>

#include "gguf.h"

namespace lh {

// Adds the names of a file's tensors.
void add_tensor_names(const gguf_context* header, std::unordered_set<std::string>& names);

// Returns a message about a missing tensor, worded to follow the file's name ("has no
// tensor ..."); "" if no tensor is known to be missing. Checks only tensors that libllama
// loads as optional but uses. libllama itself refuses files without a required tensor.
// header: header of the model's first file; names: names of the tensors in all its files.
std::string missing_tensor(const gguf_context* header,
                           const std::unordered_set<std::string>& names);

}  // namespace lh
