// UTF-8 decoding by byte and by character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lh {

// White space in ASCII.
constexpr std::string_view kSpaces = " \t\n\v\f\r";

// Tests whether a byte continues a character, instead of starting one.
constexpr bool continues_character(char byte) noexcept {
  return (static_cast<uint8_t>(byte) & 0xC0U) == 0x80U;
}

// Decoder of one byte at a time, for well-formed UTF-8 as defined in table 3-7 of the
// Unicode standard.
class Utf8Decoder {
 public:
  enum class Found : uint8_t { kMore, kCharacter, kIllFormed };

  // After kCharacter the next byte starts a character; after kIllFormed no byte may
  // follow.
  Found add(uint8_t byte) noexcept {
    if (n_left_ == 0) return start(byte);
    if (byte < low_ || byte > high_) return Found::kIllFormed;
    value_ = value_ << 6U | (byte & 0x3FU);
    low_ = 0x80;
    high_ = 0xBF;
    return --n_left_ == 0 ? Found::kCharacter : Found::kMore;
  }

  // Tests whether the bytes so far end within a character.
  bool is_inside() const noexcept { return n_left_ > 0; }

  // The decoded character.
  char32_t value() const noexcept { return value_; }

  // Within a character: the lowest and the highest value that the character can have.
  char32_t lowest() const noexcept { return shift(value_ << 6U | (low_ & 0x3FU)); }
  char32_t highest() const noexcept {
    return shift((value_ << 6U | (high_ & 0x3FU)) + 1) - 1;
  }

 private:
  Found start(uint8_t byte) noexcept {
    low_ = 0x80;
    high_ = 0xBF;
    value_ = byte;
    if (byte < 0x80) return Found::kCharacter;
    if (byte < 0xC2 || byte > 0xF4) return Found::kIllFormed;
    n_left_ = static_cast<uint8_t>(byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3);
    value_ = byte & (0x3FU >> n_left_);
    if (byte == 0xE0) low_ = 0xA0;  // overlong encodings
    if (byte == 0xF0) low_ = 0x90;
    if (byte == 0xED) high_ = 0x9F;  // surrogates
    if (byte == 0xF4) high_ = 0x8F;  // larger than the last character
    return Found::kMore;
  }
  char32_t shift(char32_t value) const noexcept { return value << (6U * (n_left_ - 1U)); }

  char32_t value_ = 0;  // bits decoded so far
  uint8_t n_left_ = 0;  // bytes still expected
  uint8_t low_ = 0x80;  // lower and upper limit of the next byte
  uint8_t high_ = 0xBF;
};

// Result of reading one character at the start of a text.
struct Utf8Character {
  size_t size;     // number of bytes read
  bool valid;      // whether the bytes are one well-formed character
  bool complete;   // false if more bytes could complete the character
  char32_t value;  // defined if valid
};

// Reads one character of `bytes`, which must not be empty.
Utf8Character read_utf8(std::string_view bytes) noexcept;

// Returns the length of data[0, size) up to its last complete character. Bytes that can
// never become a character are treated as complete, because they are replaced later.
size_t utf8_complete_prefix(const char* data, size_t size) noexcept;

// Appends a character other than a surrogate.
void append_utf8(std::string& out, char32_t character);

// Appends `bytes` to `out`, with every ill-formed sequence replaced by U+FFFD.
void append_valid_utf8(std::string& out, std::string_view bytes);

}  // namespace lh
