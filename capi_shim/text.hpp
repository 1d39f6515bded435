// Generated text: valid UTF-8 only, cut before a stop text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lh {

// The beginning of a text as a character.
struct Utf8Character {
  size_t size;     // bytes looked at
  bool valid;      // they are one well-formed character
  bool complete;   // false: more bytes could still make it one
  char32_t value;  // if it is valid
};

// Reads one character of `bytes`, of which there is at least one, as the Unicode
// standard's table 3-7 defines well-formed UTF-8.
Utf8Character read_utf8(std::string_view bytes) noexcept;

// Bytes of data[0, size) up to the last character that is complete. Bytes that can never
// become a character count as complete: they are replaced later, not waited for.
size_t utf8_complete_prefix(const char* data, size_t size) noexcept;

// Appends `bytes` to `out`, every ill-formed sequence replaced by U+FFFD.
void append_valid_utf8(std::string& out, std::string_view bytes);

// Collects the bytes of one client's tokens.
class TextBuffer {
 public:
  TextBuffer() = default;
  explicit TextBuffer(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Adds the bytes of one token. Returns true when a stop text is complete; the text then
  // ends before it.
  bool append(std::string_view piece);

  // Ends the text: nothing is held back any more; half a character at the end is dropped.
  void finish();

  const std::string& text() const { return text_; }

  // Bytes that later tokens cannot change: the rest could become part of a stop text.
  size_t n_stable() const;

 private:
  std::vector<std::string> stops_;
  std::string text_;     // valid UTF-8
  std::string pending_;  // an incomplete character, at most 3 bytes
  bool finished_ = false;
};

}  // namespace lh
