// Tests special tokens and literal marks.
#include <doctest/doctest.h>

#include <algorithm>

#include "guard.hpp"
#include "prompt.hpp"
#include "toy.hpp"

TEST_CASE("special tokens are parsed as the text looks, or as asked") {
  const auto model = toy::model();
  using Tokens = std::vector<int32_t>;
  const int32_t lt = '<';
  CHECK(lh::tokenize_prompt(*model, "a", -1) == Tokens{fake::kBos, 'a'});
  CHECK(lh::tokenize_prompt(*model, "<|x|>a", -1) ==
        Tokens{fake::kBos, fake::kControl, 'a'});
  CHECK(lh::tokenize_prompt(*model, "<|x|>", 0).size() == 6);
  CHECK(lh::tokenize_prompt(*model, "a<|x|>", -1)[2] == lt);
  CHECK(lh::tokenize_prompt(*model, "a<|x|>", 1) ==
        Tokens{fake::kBos, 'a', fake::kControl});
  // If the template wrote a BOS, no second BOS is added.
  CHECK(lh::tokenize_prompt(*model, "<s>a", -1) == Tokens{fake::kBos, 'a'});
  CHECK_THROWS_AS(lh::tokenize_prompt(*model, "a", 2), lh::Error);
  CHECK(lh::tokenize_prompt(*model, "", -1) == Tokens{fake::kBos});
}

TEST_CASE("a document that contains special tokens stays a document") {
  const auto model = toy::model();
  const std::string open = "\xEF\xB7\x90";
  const std::string close = "\xEF\xB7\x91";
  CHECK(lh::mark_literals(*model, "plain < text") == "plain < text");
  CHECK(lh::mark_literals(*model, "a<|x|>b") == "a" + open + "<|x|>" + close + "b");
  CHECK(lh::mark_literals(*model, open + close) == "\xEF\xBF\xBD\xEF\xBF\xBD");

  const std::string prompt = "<|x|>" + lh::mark_literals(*model, "say <|x|>!") + "<|x|>";
  const auto tokens = lh::tokenize_prompt(*model, prompt, -1);
  CHECK(std::count(tokens.begin(), tokens.end(), fake::kControl) == 2);
  std::vector<int32_t> expected = {fake::kBos, fake::kControl};
  for (const char c : std::string("say <|x|>!")) expected.push_back(c);
  expected.push_back(fake::kControl);
  CHECK(tokens == expected);
  // An opening mark without a closing mark makes the whole rest of the text literal.
  CHECK(lh::tokenize_prompt(*model, open + "<|x|>", -1).size() == 6);
}
