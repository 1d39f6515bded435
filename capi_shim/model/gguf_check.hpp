// Header of a model file, read before the model is loaded.
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

// Header of a file, and the sizes that the header states.
struct Gguf {
  Header header;
  lh_gguf_info info;
};

// Reads and checks the header of one file: see lh_gguf_check. `kind`: name of this kind
// of file in messages.
Gguf read_gguf(const std::string& path, const char* kind);
// Reads from the start of an open, seekable file.
Gguf read_gguf(std::FILE* file, const std::string& path, const char* kind);

// Checks a file and, for a split model, all other parts. The result has total sizes.
lh_gguf_info check_gguf(const std::string& path);

// Returns the paths of all files of a model with `n_parts` parts, the first of which is
// `path`.
std::vector<std::string> part_paths(const std::string& path, int32_t n_parts);

}  // namespace lh
