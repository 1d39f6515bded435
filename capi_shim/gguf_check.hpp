// What the header of a model file says, read before the model is loaded.
#pragma once

#include <cstdio>
#include <string>

#include "llamaherd.h"

namespace lh {

// Checks one GGUF file by its header: see lh_gguf_check. `name` is what messages call it.
// Reads from the start of `file`, which must be seekable.
lh_gguf_info check_gguf_file(std::FILE* file, const std::string& name);

// Checks a file and, of a model in several files, all the others. Sizes are of all.
lh_gguf_info check_gguf(const std::string& path);

}  // namespace lh
