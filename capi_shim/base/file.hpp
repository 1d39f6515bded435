// Files for reading: paths in UTF-8 and sizes beyond 2 GiB, also on Windows.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace lh {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

// Opens a file for reading. `path`: UTF-8. Returns null if the file cannot be opened;
// errno then has the reason.
File open_file(const std::string& path);

// Moves to a byte. `origin`: SEEK_SET or SEEK_END. Returns false on failure.
bool seek(std::FILE* file, int64_t offset, int origin);

// Returns the position in bytes; -1 if unknown.
int64_t position(std::FILE* file);

}  // namespace lh
