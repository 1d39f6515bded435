// Tests the contract of newrllama_generate_parallel on the toy model, with faults.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "engine_fixture.hpp"
#include "fake_llama.hpp"
#include "newrllama_capi.h"
#include "toy.hpp"

using fake::Fault;

namespace {

constexpr newrllama_parallel_params kParams = {20, 40, 1.0F, 0.0F, 0, 1.0F, 1234};

struct Herd {
  Herd(int n_ctx, int n_seq_max) {
    fake::reset();
    REQUIRE(newrllama_model_load(fake::kModelPath, 0, true, false, &model, nullptr) ==
            NEWRLLAMA_SUCCESS);
    REQUIRE(newrllama_context_create(model, n_ctx, 1, n_seq_max, &ctx, &message) ==
            NEWRLLAMA_SUCCESS);
  }
  ~Herd() {
    CHECK(fake::n_cells_left() == 0);
    CHECK(fake::counts().n_violations == 0);
    newrllama_context_free(ctx);
    newrllama_model_free(model);
  }

  std::vector<std::string> answer(const std::vector<std::string>& prompts,
                                  newrllama_parallel_params params = kParams) {
    std::vector<const char*> texts;
    for (const std::string& prompt : prompts) texts.push_back(prompt.c_str());
    char** results = nullptr;
    code = newrllama_generate_parallel(ctx, texts.data(), static_cast<int>(texts.size()),
                                       &params, &results, &message);
    std::vector<std::string> out;
    for (size_t i = 0; results != nullptr && i < texts.size(); ++i) {
      out.emplace_back(results[i]);
    }
    newrllama_free_string_array(results, static_cast<int>(texts.size()));
    return out;
  }

  std::string stats() {
    char* line = nullptr;
    REQUIRE(newrllama_stats(ctx, &line, nullptr) == NEWRLLAMA_SUCCESS);
    std::string text = line;
    newrllama_free_string(line);
    return text;
  }

  newrllama_model_handle model = nullptr;
  newrllama_context_handle ctx = nullptr;
  newrllama_error_code code = NEWRLLAMA_SUCCESS;
  const char* message = nullptr;
};

std::string alone(const std::string& prompt, int32_t max_tokens = 20) {
  std::vector<int32_t> tokens = {fake::kBos};
  for (const int32_t token : toy::tokens(prompt)) tokens.push_back(token);
  return fake::answer(tokens, max_tokens);
}

std::vector<std::string> alone(const std::vector<std::string>& prompts) {
  std::vector<std::string> out;
  for (const std::string& prompt : prompts) out.push_back(alone(prompt));
  return out;
}

std::vector<std::string> numbered(int n, const std::string& prefix = "prompt ") {
  std::vector<std::string> prompts;
  for (int i = 0; i < n; ++i) prompts.push_back(prefix + std::to_string(i * 7919 % 1000));
  return prompts;
}

}  // namespace

TEST_CASE("twenty prompts on four sequences, in order") {
  Herd herd(2048, 4);
  const auto prompts = numbered(20);
  CHECK(herd.answer(prompts) == alone(prompts));
  CHECK(herd.code == NEWRLLAMA_SUCCESS);
  CHECK(herd.message == nullptr);
}

TEST_CASE("one sequence is enough, and so is one prompt") {
  Herd herd(128, 1);
  const auto prompts = numbered(5);
  CHECK(herd.answer(prompts) == alone(prompts));
  CHECK(herd.answer({"one"}) == std::vector<std::string>{alone("one")});
}

TEST_CASE("shared prefixes are decoded once, at every depth of the tree") {
  Herd herd(2048, 4);
  std::vector<std::string> prompts;
  for (int document = 0; document < 6; ++document) {
    for (int question = 0; question < 4; ++question) {
      prompts.push_back(std::string(40, 'c') +
                        std::string(30, static_cast<char>('a' + document)) +
                        std::to_string(question));
    }
  }
  fake::settings().eos_share = 0;
  CHECK(herd.answer(prompts) == alone(prompts));
  // <s> and 40 common tokens, 6 documents of 30 tokens, 24 questions of 1 token, and 24
  // answers, whose last token is never decoded.
  CHECK(fake::counts().n_tokens == 41 + 6 * 30 + 24 + 24 * 19);
}

TEST_CASE("identical prompts are prefilled once") {
  Herd herd(2048, 4);
  const std::vector<std::string> prompts(10, std::string(60, 'x'));
  fake::settings().eos_share = 0;
  CHECK(herd.answer(prompts) == alone(prompts));
  CHECK(fake::counts().n_tokens == 60 + 10 + 10 * 19);
}

TEST_CASE("too little room for all at once: fewer run, every prompt is answered") {
  for (const int n_ctx : {100, 600, 1024}) {  // 1, 2 and 4 streams of 256 cells
    Herd herd(n_ctx, 8);
    fake::settings().eos_share = 0;
    auto prompts = numbered(12, std::string(20, 'p'));
    prompts.push_back(std::string(70, 'z'));
    CHECK(herd.answer(prompts) == alone(prompts));
  }
}

TEST_CASE("calls of different sizes on one context") {
  Herd herd(2048, 4);
  for (const int length : {10, 900, 30, 1900, 10}) {
    const auto prompts = numbered(5, std::string(static_cast<size_t>(length), 'x'));
    CHECK(herd.answer(prompts) == alone(prompts));
  }
}

TEST_CASE("a prompt that cannot fit has its own error, the others are answered") {
  Herd herd(64, 4);
  auto prompts = numbered(6);
  prompts.insert(prompts.begin() + 3, std::string(60, 'x'));
  const auto results = herd.answer(prompts);
  CHECK(herd.code == NEWRLLAMA_SUCCESS);
  CHECK(
      results[3] ==
      "[ERROR] the prompt has 61 tokens; with max_tokens = 20 it needs 81 KV cells, but "
      "n_ctx is 64");
  for (size_t i = 0; i < results.size(); ++i) {
    if (i != 3) CHECK(results[i] == alone(prompts[i]));
  }
}

TEST_CASE("when a batch is refused only the guilty client fails") {
  for (const Fault fault : {Fault::kInvalid, Fault::kFatal, Fault::kThrow}) {
    Herd herd(2048, 4);
    fake::settings().eos_share = 0;
    fake::settings().fault = [fault](int64_t n, const std::vector<int32_t>& ids) {
      // Refuses batches with sequence 2, starting with the tenth batch.
      const bool guilty = std::find(ids.begin(), ids.end(), 2) != ids.end();
      return n >= 10 && n < 20 && guilty ? fault : Fault::kNone;
    };
    const auto prompts = numbered(12);
    const auto results = herd.answer(prompts);
    CHECK(herd.code == NEWRLLAMA_SUCCESS);
    int n_failed = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].find("[ERROR] llama_decode returned") == 0) {
        ++n_failed;
      } else {
        CHECK(results[i] == alone(prompts[i]));
      }
    }
    CHECK(n_failed >= 1);
    CHECK(n_failed <= 3);
    CHECK(herd.stats().find(" 0 fallbacks") == std::string::npos);
    fake::settings().fault = nullptr;
    CHECK(herd.answer(prompts) == alone(prompts));
  }
}

TEST_CASE("a failure that passes costs nobody anything") {
  for (const Fault fault : {Fault::kInvalid, Fault::kFatal, Fault::kNoSlot}) {
    Herd herd(2048, 4);
    fake::settings().fault = [fault](int64_t n, const std::vector<int32_t>&) {
      return n % 10 == 5 ? fault : Fault::kNone;
    };
    const auto prompts = numbered(12);
    CHECK(herd.answer(prompts) == alone(prompts));
  }
}

TEST_CASE("a prefix that cannot be computed does not take its prompts with it") {
  Herd herd(2048, 4);
  int n_refused = 0;
  fake::settings().fault = [&](int64_t, const std::vector<int32_t>&) {
    // The first batch has only the shared prefix. It is refused twice.
    return ++n_refused <= 2 ? Fault::kInvalid : Fault::kNone;
  };
  const auto prompts = numbered(6, std::string(50, 'c'));
  CHECK(herd.answer(prompts) == alone(prompts));
}

TEST_CASE("sampling depends on the seed and the prompt's index, on nothing else") {
  newrllama_parallel_params params = kParams;
  params.temperature = 0.9F;
  const auto prompts = numbered(10);
  Herd wide(2048, 8);
  const auto first = wide.answer(prompts, params);
  CHECK(wide.answer(prompts, params) == first);
  params.seed = 99;
  CHECK(wide.answer(prompts, params) != first);
  params.seed = -1;
  CHECK(wide.answer(prompts, params) != wide.answer(prompts, params));
  params.seed = kParams.seed;
  const std::vector<std::string> same(4, "same prompt");
  const auto samples = wide.answer(same, params);
  CHECK(samples[0] != samples[1]);
}

TEST_CASE("sampling is the same on one sequence and on eight") {
  newrllama_parallel_params params = kParams;
  params.temperature = 0.9F;
  const auto prompts = numbered(10);
  std::vector<std::string> first;
  {
    Herd narrow(128, 1);
    first = narrow.answer(prompts, params);
  }
  Herd wide(2048, 8);
  CHECK(wide.answer(prompts, params) == first);
}

TEST_CASE("the thousandth call is like the first") {
  Herd herd(256, 4);
  const auto prompts = numbered(3);
  const auto expected = alone(prompts);
  herd.answer(prompts);
  const int64_t first = fake::counts().n_tokens;
  for (int call = 0; call < 1000; ++call) REQUIRE(herd.answer(prompts) == expected);
  CHECK(fake::counts().n_tokens == 1001 * first);
}

TEST_CASE("abort keeps what is done and leaves the context clean") {
  Herd herd(512, 2);
  fake::settings().eos_share = 0;
  fake::settings().decode_ms = 1;
  const auto prompts = numbered(40);
  std::thread aborter([&] {
    while (fake::counts().n_decodes < 50) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    newrllama_abort(herd.ctx);
  });
  const auto results = herd.answer(prompts);
  aborter.join();
  CHECK(herd.code == NEWRLLAMA_ABORTED);
  int n_done = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] == "[ERROR] cancelled") continue;
    CHECK(results[i] == alone(prompts[i]));
    ++n_done;
  }
  CHECK(n_done >= 2);
  CHECK(n_done < 40);
  fake::settings().decode_ms = 0;
  CHECK(herd.answer(prompts) == alone(prompts));
}

TEST_CASE("five callers share one context") {
  Herd herd(2048, 4);
  std::atomic<int> n_right{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 5; ++caller) {
    callers.emplace_back([&, caller] {
      const auto prompts = numbered(8, "caller " + std::to_string(caller) + " ");
      std::vector<const char*> texts;
      for (const std::string& prompt : prompts) texts.push_back(prompt.c_str());
      char** results = nullptr;
      const newrllama_parallel_params params = kParams;
      if (newrllama_generate_parallel(herd.ctx, texts.data(), 8, &params, &results,
                                      nullptr) != NEWRLLAMA_SUCCESS) {
        return;
      }
      for (size_t i = 0; i < 8; ++i) n_right += results[i] == alone(prompts[i]) ? 1 : 0;
      newrllama_free_string_array(results, 8);
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(n_right == 40);
}

TEST_CASE("generate answers one prompt of tokens, or fails with the reason") {
  Herd herd(64, 1);
  const std::vector<int32_t> tokens = toy::tokens("hello");
  newrllama_parallel_params params = kParams;
  char* text = nullptr;
  CHECK(newrllama_generate(herd.ctx, tokens.data(), tokens.size(), &params, &text,
                           &herd.message) == NEWRLLAMA_SUCCESS);
  CHECK(std::string(text) == fake::answer(tokens, 20));
  newrllama_free_string(text);
  const int32_t outside[] = {5, fake::kVocab};
  CHECK(newrllama_generate(herd.ctx, outside, 2, &params, &text, &herd.message) ==
        NEWRLLAMA_ERROR);
  CHECK(text == nullptr);
  CHECK(std::string(herd.message).find("llama_decode returned -1") == 0);
  CHECK(newrllama_generate(herd.ctx, nullptr, 2, &params, &text, &herd.message) ==
        NEWRLLAMA_INVALID_ARGUMENT);
  params.max_tokens = 0;
  CHECK(newrllama_generate(herd.ctx, tokens.data(), tokens.size(), &params, &text,
                           &herd.message) == NEWRLLAMA_INVALID_ARGUMENT);
  CHECK(std::string(herd.message) ==
        "max_tokens must be between 1 and 2147483647, not 0");
}

TEST_CASE("a prompt that is NULL or a setting out of range is named") {
  Herd herd(128, 2);
  const char* prompts[] = {"one", nullptr};
  char** results = nullptr;
  newrllama_parallel_params params = kParams;
  CHECK(newrllama_generate_parallel(herd.ctx, prompts, 2, &params, &results,
                                    &herd.message) == NEWRLLAMA_SUCCESS);
  CHECK(std::string(results[1]) == "[ERROR] the prompt must not be NULL");
  CHECK(std::string(results[0]) == alone("one"));
  newrllama_free_string_array(results, 2);
  const std::pair<float newrllama_parallel_params::*, const char*> wrong[] = {
      {&newrllama_parallel_params::top_p, "top_p must be between"},
      {&newrllama_parallel_params::penalty_repeat, "penalty_repeat must be"},
  };
  for (const auto& [field, problem] : wrong) {
    params = kParams;
    params.*field = -7;
    results = nullptr;
    CHECK(newrllama_generate_parallel(herd.ctx, prompts, 1, &params, &results,
                                      &herd.message) == NEWRLLAMA_INVALID_ARGUMENT);
    CHECK(results == nullptr);
    CHECK(std::string(herd.message).find(problem) == 0);
  }
}

TEST_CASE(
    "a call without memory fails as a whole or answers, and the next call is whole") {
  std::vector<std::string> prompts;
  for (int i = 0; i < 6; ++i) {
    prompts.push_back("A beginning that all share " + std::to_string(i));
  }
  std::vector<std::string> expected;
  for_each_allocation([&](const auto& without_memory, bool) {
    Herd h(1024, 4);
    if (expected.empty()) expected = h.answer(prompts);
    std::vector<const char*> texts;
    for (const std::string& prompt : prompts) texts.push_back(prompt.c_str());
    const auto n = static_cast<int>(texts.size());
    char** results = nullptr;
    without_memory([&] {
      h.code = newrllama_generate_parallel(h.ctx, texts.data(), n, &kParams, &results,
                                           nullptr);
    });
    if (h.code != NEWRLLAMA_SUCCESS) CHECK(results == nullptr);
    for (size_t i = 0; results != nullptr && i < texts.size(); ++i) {
      const std::string text = results[i];
      CHECK((text == expected[i] || text.find("out of memory") != std::string::npos));
    }
    newrllama_free_string_array(results, n);
    CHECK(h.answer(prompts) == expected);
  });
}
