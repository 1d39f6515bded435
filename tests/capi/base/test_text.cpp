// Tests UTF-8, its decoder, and stop texts.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>

#include "text.hpp"
#include "utf8.hpp"

using lh::TextBuffer;

namespace {

std::string valid(const std::string& bytes) {
  std::string out;
  lh::append_valid_utf8(out, bytes);
  return out;
}

const std::string kBad = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

TEST_CASE("ill-formed UTF-8 becomes U+FFFD, well-formed stays") {
  CHECK(valid("plain") == "plain");
  CHECK(valid("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80") ==
        "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  CHECK(valid("a\x80z") == "a" + kBad + "z");                     // lone continuation
  CHECK(valid("\xC0\xAF") == kBad + kBad);                        // overlong
  CHECK(valid("\xED\xA0\x80") == kBad + kBad + kBad);             // surrogate
  CHECK(valid("\xF4\x90\x80\x80") == kBad + kBad + kBad + kBad);  // past U+10FFFF
  CHECK(valid("\xE2\x82") == kBad);                               // cut
  CHECK(valid(std::string("a\0b", 3)) == std::string("a\0b", 3));
}

TEST_CASE("a character cut at the end is waited for, then dropped") {
  TextBuffer text;
  CHECK_FALSE(text.append("ok \xF0\x9F"));
  CHECK(text.text() == "ok ");
  CHECK_FALSE(text.append("\x98"));
  CHECK(text.text() == "ok ");
  CHECK_FALSE(text.append("\x80"));
  CHECK(text.text() == "ok \xF0\x9F\x98\x80");
  text.append("\xE2\x82");
  text.finish();
  CHECK(text.text() == "ok \xF0\x9F\x98\x80");
}

TEST_CASE("bytes that can never become a character are not waited for") {
  TextBuffer text;
  text.append("a\xFF");
  CHECK(text.text() == "a" + kBad);
  text.append("\xE2z");
  CHECK(text.text() == "a" + kBad + kBad + "z");
}

TEST_CASE("a stop text is found across tokens and cut off") {
  TextBuffer text({"STOP"});
  CHECK_FALSE(text.append("one ST"));
  CHECK(text.n_stable() == 4);
  CHECK_FALSE(text.append("O"));
  CHECK(text.append("P and more"));
  CHECK(text.text() == "one ");
  CHECK(text.n_stable() == 4);
}

TEST_CASE("a stop text that ends in a token that may not stop does not count") {
  TextBuffer text({"STOP"});
  CHECK_FALSE(text.append("STOP, ST", false));
  CHECK_FALSE(text.append("art, ST", false));
  CHECK(text.append("OP"));
  CHECK(text.text() == "STOP, STart, ");
}

TEST_CASE("the earliest of several stop texts counts, also when they overlap") {
  TextBuffer text({"bcd", "abc"});
  CHECK(text.append("xxabcd"));
  CHECK(text.text() == "xx");
  TextBuffer nested({"\n\n", "\n"});
  CHECK(nested.append("line\n\n"));
  CHECK(nested.text() == "line");
}

TEST_CASE(
    "a stop text of several bytes is found when a token ends inside its character") {
  TextBuffer text({"\xE2\x82\xAC"});
  CHECK_FALSE(text.append("5 \xE2"));
  CHECK_FALSE(text.append("\x82"));
  CHECK(text.append("\xAC!"));
  CHECK(text.text() == "5 ");
}

TEST_CASE("text that is held back for a stop text is released") {
  TextBuffer text({"aab"});
  text.append("aa");
  CHECK(text.n_stable() == 0);
  text.append("a");
  CHECK(text.n_stable() == 1);
  text.append("c");
  CHECK(text.n_stable() == 4);
  text.append("a");
  text.finish();
  CHECK(text.n_stable() == 5);
}

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
