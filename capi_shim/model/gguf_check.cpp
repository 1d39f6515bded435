#include "gguf_check.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "file.hpp"
#include "guard.hpp"
#include "llama.h"
#include "log.hpp"

namespace lh {
namespace {

std::string named(const char* kind, const std::string& path) {
  return std::string(kind) + " file \"" + path + "\"";
}

// `name`: name of the file with its kind.
[[noreturn]] void refuse(const std::string& name, const std::string& reason) {
  throw Error(LH_MODEL_ERROR, name + " " + reason);
}

uint64_t size_of(std::FILE* file, const std::string& name) {
  const int64_t size = seek(file, 0, SEEK_END) ? position(file) : -1;
  if (size < 0 || !seek(file, 0, SEEK_SET)) {
    refuse(name, std::string("cannot be read: ") + std::strerror(errno));
  }
  return static_cast<uint64_t>(size);
}

// Magic number and version are checked first, because these errors help a user more than
// the reader's log.
void check_start(std::FILE* file, const std::string& name, uint64_t size) {
  struct {
    char magic[4];
    uint32_t version;
  } start{};
  static_assert(sizeof start == 8, "read as one piece");
  const size_t n = std::fread(&start, 1, sizeof start, file);
  if (n < sizeof start) {
    refuse(name, "is not a GGUF file: it has " + std::to_string(size) + " bytes");
  }
  if (std::memcmp(start.magic, GGUF_MAGIC, sizeof start.magic) != 0) {
    refuse(name, "is not a GGUF file: it does not start with \"GGUF\"");
  }
  if (start.version < 2 || start.version > GGUF_VERSION) {
    refuse(name, "has GGUF version " + std::to_string(start.version) +
                     "; versions 2 to " + std::to_string(GGUF_VERSION) +
                     " can be read, in this machine's byte order");
  }
  if (!seek(file, 0, SEEK_SET)) {
    refuse(name, std::string("cannot be read: ") + std::strerror(errno));
  }
}

int32_t u16_or_zero(const gguf_context* header, const char* key) {
  const int64_t id = find_value(header, key, GGUF_TYPE_UINT16);
  return id < 0 ? 0 : gguf_get_val_u16(header, id);
}

void check_tensors(const gguf_context* header, const std::string& name,
                   lh_gguf_info& info) {
  const uint64_t room = info.file_bytes - gguf_get_data_offset(header);
  for (int64_t i = 0; i < info.n_tensors; ++i) {
    const uint64_t offset = gguf_get_tensor_offset(header, i);
    const uint64_t size = gguf_get_tensor_size(header, i);
    if (offset > room || size > room - offset) {
      // The last tensor must end within the file.
      const int64_t last = info.n_tensors - 1;
      const uint64_t needed = gguf_get_data_offset(header) +
                              gguf_get_tensor_offset(header, last) +
                              gguf_get_tensor_size(header, last);
      refuse(name, "is cut off: it has " + std::to_string(info.file_bytes) +
                       " bytes of " + std::to_string(needed) + ", and tensor \"" +
                       gguf_get_tensor_name(header, i) +
                       "\" lies past the end; was the download complete?");
    }
    info.tensor_bytes += size;
  }
}

// Returns the path of another part, in libllama's notation; "" if `path` does not have
// the name of a part.
std::string part_path(const std::string& path, int32_t part, int32_t n_parts) {
  std::string prefix(path.size() + 1, '\0');
  if (llama_split_prefix(prefix.data(), prefix.size(), path.c_str(), 0, n_parts) <= 0) {
    return "";
  }
  std::string other(path.size() + 64, '\0');
  llama_split_path(other.data(), other.size(), prefix.c_str(), part, n_parts);
  return other.c_str();
}

}  // namespace

Gguf read_gguf(std::FILE* file, const std::string& path, const char* kind) {
  const std::string name = named(kind, path);
  backend_init(false);  // sets the log callback
  lh_gguf_info info{};
  info.file_bytes = size_of(file, name);
  check_start(file, name, info.file_bytes);
  const LogMark mark;
  gguf_context_ptr header(gguf_init_from_file_ptr(file, {/*no_alloc=*/true, nullptr}));
  if (header == nullptr) {
    // The reader stops at the position of the error.
    const int64_t where = position(file);
    refuse(name, "is damaged or cut off near byte " + std::to_string(where) + " of " +
                     std::to_string(info.file_bytes) + ": " + mark.first_problem());
  }
  info.n_tensors = gguf_get_n_tensors(header.get());
  check_tensors(header.get(), name, info);
  const std::string hazard = gguf_hazard(header.get());
  if (!hazard.empty()) refuse(name, hazard);
  info.n_parts = std::max(1, u16_or_zero(header.get(), "split.count"));
  info.i_part = u16_or_zero(header.get(), "split.no");
  text_value(header.get(), "general.architecture")
      .copy(info.architecture, sizeof info.architecture - 1);
  return {std::move(header), info};
}

int64_t find_value(const gguf_context* header, const std::string& key, gguf_type type) {
  const int64_t id = gguf_find_key(header, key.c_str());
  return id >= 0 && gguf_get_kv_type(header, id) == type ? id : -1;
}

std::string text_value(const gguf_context* header, const std::string& key) {
  const int64_t id = find_value(header, key, GGUF_TYPE_STRING);
  return id < 0 ? "" : gguf_get_val_str(header, id);
}

uint32_t u32_value(const gguf_context* header, const std::string& key, uint32_t absent) {
  const int64_t id = find_value(header, key, GGUF_TYPE_UINT32);
  return id < 0 ? absent : gguf_get_val_u32(header, id);
}

Gguf read_gguf(const std::string& path, const char* kind) {
  const File file = open_file(path);
  if (file == nullptr) {
    refuse(named(kind, path), std::string("cannot be opened: ") + std::strerror(errno));
  }
  return read_gguf(file.get(), path, kind);
}

std::vector<std::string> part_paths(const std::string& path, int32_t n_parts) {
  std::vector<std::string> paths = {path};
  for (int32_t part = 1; part < n_parts; ++part) {
    paths.push_back(part_path(path, part, n_parts));
    if (!paths.back().empty()) continue;
    refuse(named("model", path),
           "is the first of " + std::to_string(n_parts) +
               " parts, but is not named like one: its name must end in "
               "\"-00001-of-0000N.gguf\", as when the model was split");
  }
  return paths;
}

lh_gguf_info check_gguf(const std::string& path) {
  const Gguf first = read_gguf(path, "model");
  lh_gguf_info all = first.info;
  if (all.n_parts > 1 && all.i_part != 0) {
    refuse(named("model", path), "is part " + std::to_string(all.i_part + 1) + " of " +
                                     std::to_string(all.n_parts) +
                                     ": give the path of the first part");
  }
  std::unordered_set<std::string> names;
  add_tensor_names(first.header.get(), names);
  const auto paths = part_paths(path, all.n_parts);
  for (size_t part = 1; part < paths.size(); ++part) {
    const Gguf one = read_gguf(paths[part], "model");
    add_tensor_names(one.header.get(), names);
    all.file_bytes += one.info.file_bytes;
    all.tensor_bytes += one.info.tensor_bytes;
    all.n_tensors += one.info.n_tensors;
  }
  const std::string missing = missing_tensor(first.header.get(), names);
  if (!missing.empty()) refuse(named("model", path), missing);
  return all;
}

}  // namespace lh
