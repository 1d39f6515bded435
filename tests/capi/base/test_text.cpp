// Tests UTF-8 and stop texts.
#include <doctest/doctest.h>

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
