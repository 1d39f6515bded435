// Generated text: valid UTF-8 only, cut before a stop text.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
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
  using Stops = std::shared_ptr<const std::vector<std::string>>;  // none are empty

  explicit TextBuffer(Stops stops) : stops_(std::move(stops)) {}
  explicit TextBuffer(std::vector<std::string> stops = {})
      : TextBuffer(std::make_shared<Stops::element_type>(std::move(stops))) {}

  // Adds the bytes of one token. Returns true when a stop text is complete; the text then
  // ends before it.
  bool append(std::string_view piece);

  // Ends the text: nothing is held back any more; half a character at the end is dropped.
  void finish();

  // Makes it another text, once it is finished.
  void replace(std::string text) { text_ = std::move(text); }

  const std::string& text() const { return text_; }

  // Bytes that later tokens cannot change: the rest could become part of a stop text.
  size_t n_stable() const;

 private:
  Stops stops_;
  std::string text_;     // valid UTF-8
  std::string pending_;  // an incomplete character, at most 3 bytes
  bool finished_ = false;
};

}  // namespace lh
