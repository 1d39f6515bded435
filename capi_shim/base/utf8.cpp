#include "utf8.hpp"

#include <algorithm>

namespace lh {

Utf8Character read_utf8(std::string_view bytes) noexcept {
  using Found = Utf8Decoder::Found;
  Utf8Decoder decoder;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const Found found = decoder.add(static_cast<uint8_t>(bytes[i]));
    if (found == Found::kCharacter) return {i + 1, true, true, decoder.value()};
    // A byte that cannot follow may start the next character.
    if (found == Found::kIllFormed) return {std::max<size_t>(i, 1), false, true, 0};
  }
  return {bytes.size(), false, false, 0};
}

size_t utf8_complete_prefix(const char* data, size_t size) noexcept {
  // A character has at most four bytes, so an incomplete one starts in the last three.
  for (size_t back = 1; back <= 3 && back <= size; ++back) {
    const auto byte = static_cast<uint8_t>(data[size - back]);
    if ((byte & 0xC0U) == 0x80U) continue;
    return read_utf8({data + size - back, back}).complete ? size : size - back;
  }
  return size;
}

void append_valid_utf8(std::string& out, std::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Character c = read_utf8(bytes);
    if (c.valid) {
      out.append(bytes.substr(0, c.size));
    } else {
      out.append("\xEF\xBF\xBD");
    }
    bytes.remove_prefix(c.size);
  }
}

}  // namespace lh
