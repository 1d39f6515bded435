// What the header of a model file says, read before the model is loaded.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "gguf.h"
#include "llamaherd.h"

namespace lh {

struct HeaderCloser {
  void operator()(gguf_context* header) const { gguf_free(header); }
};
using Header = std::unique_ptr<gguf_context, HeaderCloser>;

// A file's header, and what it says of sizes.
struct Gguf {
  Header header;
  lh_gguf_info info;
};

// Reads and checks one file by its header: see lh_gguf_check. `kind` is what messages
// call such a file.
Gguf read_gguf(const std::string& path, const char* kind);
// From the start of an open file, which must be seekable.
Gguf read_gguf(std::FILE* file, const std::string& path, const char* kind);

// Checks a file and, of a model in several files, all the others. Sizes are of all.
lh_gguf_info check_gguf(const std::string& path);

// Paths of all the files of a model, the first of which is `path` and has `n_parts`.
std::vector<std::string> part_paths(const std::string& path, int32_t n_parts);

}  // namespace lh
