// Model files that libllama would not refuse but end the process on.
#pragma once

#include <string>

#include "gguf.h"

namespace lh {

// What is wrong with a file's metadata or tensors, as the end of a sentence that starts
// with the file's name; "" if nothing is known against it. Every line of it was found by
// changing one value of a good file: see docs/decisions/0015-model-file-checks.md.
std::string gguf_hazard(const gguf_context* header);

}  // namespace lh
