#include "text.hpp"

#include <algorithm>
#include <cstdint>

namespace lh {

Utf8Character read_utf8(std::string_view bytes) noexcept {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {1, true, true, first};
  size_t length = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return {1, false, true, 0};
  }
  char32_t value = first & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) {
    if (i >= bytes.size()) return {i, false, false, 0};
    if (byte(i) < low || byte(i) > high) return {i, false, true, 0};
    value = (value << 6U) | (byte(i) & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return {length, true, true, value};
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

bool TextBuffer::append(std::string_view piece) {
  pending_.append(piece);
  const size_t complete = utf8_complete_prefix(pending_.data(), pending_.size());
  const size_t before = text_.size();
  append_valid_utf8(text_, std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);

  size_t cut = std::string::npos;
  for (const std::string& stop : *stops_) {
    // The match may begin in the old text, but must end in what is new.
    const size_t from = before >= stop.size() ? before - stop.size() + 1 : 0;
    cut = std::min(cut, text_.find(stop, from));
  }
  if (cut == std::string::npos) return false;
  text_.resize(cut);
  pending_.clear();
  finished_ = true;
  return true;
}

void TextBuffer::finish() {
  pending_.clear();
  finished_ = true;
}

size_t TextBuffer::n_stable() const {
  if (finished_) return text_.size();
  size_t held = 0;
  for (const std::string& stop : *stops_) {
    for (size_t n = std::min(stop.size() - 1, text_.size()); n > held; --n) {
      if (text_.compare(text_.size() - n, n, stop, 0, n) == 0) {
        held = n;
        break;
      }
    }
  }
  // A stop text may begin in the middle of a character only if it is not valid UTF-8
  // itself; callers are given whole characters all the same.
  return utf8_complete_prefix(text_.data(), text_.size() - held);
}

}  // namespace lh
