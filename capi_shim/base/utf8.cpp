#include "utf8.hpp"

#include <algorithm>

namespace lh {

Utf8Character read_utf8(std::string_view bytes) noexcept {
  using Found = Utf8Decoder::Found;
  Utf8Decoder decoder;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const Found state = decoder.add(static_cast<uint8_t>(bytes[i]));
    if (state == Found::kCharacter) return {i + 1, true, true, decoder.value()};
    // A byte that cannot continue a character may start the next character.
    if (state == Found::kIllFormed) return {std::max<size_t>(i, 1), false, true, 0};
  }
  return {bytes.size(), false, false, 0};
}

size_t utf8_complete_prefix(const char* data, size_t size) noexcept {
  // A character has at most four bytes, so an incomplete character starts in the last
  // three bytes.
  for (size_t back = 1; back <= 3 && back <= size; ++back) {
    if (continues_character(data[size - back])) continue;
    return read_utf8({data + size - back, back}).complete ? size : size - back;
  }
  return size;
}

void append_utf8(std::string& out, char32_t character) {
  const auto add = [&](uint32_t bits) { out += static_cast<char>(bits); };
  const auto more = [&](uint32_t shift) { add(0x80U | (character >> shift & 0x3FU)); };
  if (character < 0x80) return add(character);
  if (character < 0x800) {
    add(0xC0U | character >> 6U);
  } else if (character < 0x10000) {
    add(0xE0U | character >> 12U);
    more(6);
  } else {
    add(0xF0U | character >> 18U);
    more(12);
    more(6);
  }
  more(0);
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
