// UTF-8, byte by byte and character by character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lh {

// Reads characters byte by byte, as the Unicode standard's table 3-7 defines well-formed
// UTF-8.
class Utf8Decoder {
 public:
  enum class Found : uint8_t { kMore, kCharacter, kIllFormed };

  // After kCharacter comes the first byte of the next one; after kIllFormed nothing.
  Found add(uint8_t byte) noexcept {
    if (n_left_ == 0) return start(byte);
    if (byte < low_ || byte > high_) return Found::kIllFormed;
    value_ = value_ << 6U | (byte & 0x3FU);
    low_ = 0x80;
    high_ = 0xBF;
    return --n_left_ == 0 ? Found::kCharacter : Found::kMore;
  }

  // Whether the bytes so far end within a character.
  bool is_inside() const noexcept { return n_left_ > 0; }

  // The character that was found.
  char32_t value() const noexcept { return value_; }

  // Inside of one: the lowest and the highest that it can become.
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
    if (byte == 0xE0) low_ = 0xA0;  // what fewer bytes stand for
    if (byte == 0xF0) low_ = 0x90;
    if (byte == 0xED) high_ = 0x9F;  // halves of surrogate pairs
    if (byte == 0xF4) high_ = 0x8F;  // past the last character
    return Found::kMore;
  }
  char32_t shift(char32_t value) const noexcept { return value << (6U * (n_left_ - 1U)); }

  char32_t value_ = 0;  // the bits so far
  uint8_t n_left_ = 0;  // bytes to come
  uint8_t low_ = 0x80;  // the next one lies between these
  uint8_t high_ = 0xBF;
};

// The beginning of a text as a character.
struct Utf8Character {
  size_t size;     // bytes looked at
  bool valid;      // they are one well-formed character
  bool complete;   // false: more bytes could still make it one
  char32_t value;  // if it is valid
};

// Reads one character of `bytes`, of which there is at least one.
Utf8Character read_utf8(std::string_view bytes) noexcept;

// Bytes of data[0, size) up to the last character that is complete. Bytes that can never
// become a character count as complete: they are replaced later, not waited for.
size_t utf8_complete_prefix(const char* data, size_t size) noexcept;

// Appends a character that is no surrogate.
void append_utf8(std::string& out, char32_t character);

// Appends `bytes` to `out`, every ill-formed sequence replaced by U+FFFD.
void append_valid_utf8(std::string& out, std::string_view bytes);

}  // namespace lh
