// Tests special tokens, literal marks, and runs of characters that need much stack.
#include <doctest/doctest.h>
#include <pthread.h>

#include <algorithm>
#include <random>

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

namespace {

// Runs a function on a thread with a stack of 256 KiB.
void run_on_small_stack(const std::function<void()>& run) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, size_t{256} << 10U);
  pthread_t thread{};
  const auto start = [](void* data) -> void* {
    (*static_cast<const std::function<void()>*>(data))();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, start,
                         const_cast<std::function<void()>*>(&run)) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

std::vector<int32_t> tokenize(const lh_model& model, const std::string& text) {
  return model.tokenize(text, false, false);
}

}  // namespace

TEST_CASE("runs of characters need no more stack than a thread has") {
  const auto model = toy::model();
  fake::settings().word_stack = 320;
  for (const std::string unit : {"a", " ", "\n", "\xFF", "\xE4\xB8\xAD", "aB1,"}) {
    CAPTURE(unit);
    std::string text = "short words first ";
    while (text.size() < 40'000) text += unit;
    run_on_small_stack([&] { CHECK(tokenize(*model, text) == toy::tokens(text)); });
  }
  std::string many;
  while (many.size() < 40'000) many += "word ";
  run_on_small_stack([&] { CHECK(tokenize(*model, many) == toy::tokens(many)); });
  fake::reset();
}

TEST_CASE("a run that needs too much memory is refused, with its length") {
  const auto model = toy::model();
  fake::settings().word_stack = 500;
  try {
    static_cast<void>(tokenize(*model, "a " + std::string(2'000'000, 'b')));
    FAIL("not refused");
  } catch (const lh::Error& error) {
    CHECK(error.code() == LH_INVALID_ARGUMENT);
    const std::string message = error.what();
    CHECK(message.find("2000001 characters without a space") != std::string::npos);
  }
  // Other texts and tokenizers are not affected.
  CHECK(tokenize(*model, "ab") == toy::tokens("ab"));
  fake::reset();
  const std::string text(2'000'000, 'b');
  CHECK(tokenize(*toy::model(), text).size() == text.size());
}

TEST_CASE("a text is refused before it is read if libllama cannot count its bytes") {
  const auto model = toy::model();
  const std::string_view text("a", size_t{INT32_MAX});  // one byte in memory
  CHECK_THROWS_AS(model->tokenize(text, true, true), lh::Error);
  CHECK_THROWS_AS(model->tokenize_inside(text), lh::Error);
}

TEST_CASE("the longest special text at the start of a text is found") {
  std::mt19937 random(3);
  const auto a_text = [&](size_t n_most) {
    std::string text;
    for (size_t n = 1 + random() % n_most; n > 0; --n) {
      text.push_back("ab\xFF"[random() % 3]);
    }
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> specials(1 + random() % 6);
    lh::SpecialTexts texts;
    for (std::string& special : specials) {
      special = a_text(5);
      texts.insert(special, static_cast<int32_t>(special.size()));
    }
    const std::string text = a_text(8);
    size_t longest = 0;
    for (const std::string& special : specials) {
      if (text.rfind(special, 0) == 0) longest = std::max(longest, special.size());
    }
    CHECK(texts.match(text) == longest);
    if (longest > 0) {
      CHECK(texts.token(text.substr(0, longest)) == static_cast<int32_t>(longest));
    }
  }
}
