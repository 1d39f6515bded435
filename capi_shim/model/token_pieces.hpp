// Texts of a vocabulary sorted by bytes, so that texts with a common beginning are
// adjacent and a grammar reads each beginning once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lh {

class TokenPieces {
 public:
  struct Entry {
    int32_t token;
    uint32_t offset;  // offset of its bytes
    uint32_t size;
    uint32_t shared;  // number of leading bytes in common with the previous entry
  };

  // pieces[token]: bytes that the token adds to a text; tokens without bytes are left
  // out.
  explicit TokenPieces(const std::vector<std::string>& pieces);

  const std::vector<Entry>& entries() const { return entries_; }
  std::string_view bytes(const Entry& entry) const {
    return std::string_view(bytes_).substr(entry.offset, entry.size);
  }
  size_t longest() const { return longest_; }

 private:
  std::string bytes_;
  std::vector<Entry> entries_;
  size_t longest_ = 0;
};

}  // namespace lh
