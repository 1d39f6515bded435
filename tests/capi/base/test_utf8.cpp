// Tests of the UTF-8 decoder.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>

#include "utf8.hpp"

namespace {

// Values of the standard's table: first bytes, and the first two bytes of characters of
// three and four bytes.
constexpr int kFirst = 30 + 16 + 5;
constexpr int kOfThree = 14 * 64 + 32 + 32;
constexpr int kOfFour = 3 * 64 + 48 + 16;

std::string encode(char32_t c) {
  const auto last = [c](unsigned shift) {
    return static_cast<char>(0x80U | ((c >> shift) & 0x3FU));
  };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0U | c >> 6U), last(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0U | c >> 12U), last(6), last(0)};
  return {static_cast<char>(0xF0U | c >> 18U), last(12), last(6), last(0)};
}

}  // namespace

TEST_CASE("every character is read, and its beginnings tell what they can become") {
  std::map<std::string, std::pair<char32_t, char32_t>> beginnings;  // lowest, highest
  int n_wrong = 0;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c == 0xD800) c = 0xE000;
    const std::string bytes = encode(c);
    const lh::Utf8Character read = lh::read_utf8(bytes + "x");
    if (!read.valid || !read.complete || read.value != c || read.size != bytes.size()) {
      ++n_wrong;
    }
    for (size_t n = 1; n < bytes.size(); ++n) {
      beginnings.try_emplace(bytes.substr(0, n), c, c).first->second.second = c;
    }
  }
  CHECK(n_wrong == 0);
  for (const auto& [bytes, range] : beginnings) {
    lh::Utf8Decoder decoder;
    for (const char byte : bytes) decoder.add(static_cast<uint8_t>(byte));
    if (!decoder.is_inside() || decoder.lowest() != range.first ||
        decoder.highest() != range.second || lh::read_utf8(bytes).complete) {
      ++n_wrong;
    }
  }
  CHECK(beginnings.size() == kFirst + kOfThree + kOfFour + 64 * kOfFour);
  CHECK(n_wrong == 0);
}

TEST_CASE("nothing else is a character") {
  // Tests each pair of bytes that does not begin a character.
  int n_ill_formed = 0;
  for (unsigned first = 0x80; first < 0x100; ++first) {
    for (unsigned second = 0; second < 0x100; ++second) {
      const std::string bytes = {static_cast<char>(first), static_cast<char>(second)};
      const lh::Utf8Character read = lh::read_utf8(bytes);
      if (read.valid || !read.complete) continue;
      CHECK(read.size == 1);
      ++n_ill_formed;
    }
  }
  CHECK(n_ill_formed == 128 * 256 - 30 * 64 - kOfThree - kOfFour);
}
