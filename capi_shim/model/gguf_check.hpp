// Header of a model file, read and checked before the model is loaded.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ggml-cpp.h"
#include "llamaherd.h"

namespace lh {

// Values of a header. Absent, and of another type, is the same here: libllama itself
// refuses a value of a wrong type.
int64_t find_value(const gguf_context* header, const std::string& key, gguf_type type);
std::string text_value(const gguf_context* header, const std::string& key);
uint32_t u32_value(const gguf_context* header, const std::string& key, uint32_t absent);

inline bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Header of a file, and the sizes that the header states.
struct Gguf {
  gguf_context_ptr header;
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

// Returns the problem with a file's metadata or tensors on which libllama would end the
// process, worded to follow the file's name; "" if no problem is known. The checks were
// found by changing single values of valid files:
// docs/decisions/0015-model-file-checks.md.
std::string gguf_hazard(const gguf_context* header);

// Adds the names of a file's tensors.
void add_tensor_names(const gguf_context* header, std::unordered_set<std::string>& names);

// Returns a message about a missing tensor, worded to follow the file's name ("has no
// tensor ..."); "" if no tensor is known to be missing. Checks only tensors that libllama
// loads as optional but uses. libllama itself refuses files without a required tensor.
// header: header of the model's first file; names: names of the tensors in all its files.
std::string missing_tensor(const gguf_context* header,
                           const std::unordered_set<std::string>& names);

}  // namespace lh
