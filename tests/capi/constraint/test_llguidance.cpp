// Tests of constraints that use llguidance's functions. A fake replaces these functions:
// the fake requires a fixed text, and fails when a test requests a failure.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "allocations.hpp"
#include "engine_fixture.hpp"
#include "guard.hpp"
#include "llguidance.hpp"

using toy::Request;

namespace {

// Selects the function that fails, and the number of calls before the failure.
struct Failure {
  std::string function;
  int n_before = 0;
} failure;
int n_matchers = 0;
int n_compiled = 0;

// First fields of the struct from which a tokenizer is created.
struct TokenizerInit {
  size_t struct_size;
  uint32_t vocab_size;
  uint32_t tok_eos;
  const void* token_lens;
  const void* token_bytes;
  const char* tokenizer_json;
  bool tokenize_assumes_string;
  size_t (*tokenize)(const void*, const uint8_t*, size_t, uint32_t*, size_t);
  bool use_approximate_greedy_tokenize;
  const void* user_data;
} tokenizer_init;

bool fails(const char* function) {
  return failure.function == function && failure.n_before-- <= 0;
}

// Constraint to a text in which '?' is any small letter. The text before a '?' is forced.
struct Matcher {
  std::string text;
  size_t at = 0;
  std::string error;
};

const char* get_version() { return "llguidance@1.9.1 stand-in"; }

void* new_tokenizer(const void* init, char* why, size_t size) {
  static int tokenizer;
  std::memcpy(&tokenizer_init, init, sizeof tokenizer_init);
  if (!fails("new_tokenizer")) return &tokenizer;
  std::strncpy(why, "no such vocabulary", size - 1);
  return nullptr;
}

void free_tokenizer(void*) {}
void set_defaults(void*, const void*) {}

Matcher* new_matcher(const void*, const char* kind, const char* text) {
  const allocations::Exempt exempt;
  ++n_matchers;
  ++n_compiled;
  auto* matcher = new Matcher{text, 0, ""};  // NOLINT: a C library has no owners
  if (fails("new_matcher")) matcher->error = "the schema explodes";
  if (std::string(kind) == "lark") matcher->error = "no such grammar";
  return matcher;
}

Matcher* clone_matcher(const Matcher* matcher) {
  const allocations::Exempt exempt;
  if (fails("clone_matcher")) return nullptr;
  ++n_matchers;
  return new Matcher(*matcher);  // NOLINT
}

void free_matcher(Matcher* matcher) {
  if (matcher == nullptr) return;
  --n_matchers;
  delete matcher;  // NOLINT
}

const char* get_error(Matcher* matcher) {
  return matcher->error.empty() ? nullptr : matcher->error.c_str();
}

int32_t give(Matcher* matcher, const char* function, int32_t result) {
  if (fails(function)) matcher->error = std::string("an injected failure of ") + function;
  return matcher->error.empty() ? result : -1;
}

int32_t compute_mask(Matcher* matcher, uint32_t* mask, size_t n_bytes) {
  std::memset(mask, 0, n_bytes);
  const bool is_over = matcher->at == matcher->text.size();
  for (uint32_t token = 0; token < 256 && !is_over; ++token) {
    const auto c = static_cast<uint8_t>(matcher->text[matcher->at]);
    const bool is_allowed = c == '?' ? token >= 'a' && token <= 'z' : c == token;
    if (is_allowed) mask[token / 32] |= 1U << (token % 32);
  }
  return give(matcher, "compute_mask", 0);
}

int32_t consume(Matcher* matcher, const uint32_t*, size_t n) {
  matcher->at += n;
  return give(matcher, "consume", 0);
}

int32_t compute_ff(Matcher* matcher, uint32_t* tokens, size_t capacity) {
  int32_t n = 0;
  for (size_t i = matcher->at; i < matcher->text.size() && matcher->text[i] != '?'; ++i) {
    if (static_cast<size_t>(n) < capacity) {
      tokens[n++] = static_cast<uint8_t>(matcher->text[i]);
    }
  }
  return give(matcher, "compute_ff", n);
}

bool is_over(const Matcher* matcher) {
  return !matcher->error.empty() || matcher->at == matcher->text.size();
}

size_t tokenize(const void*, const uint8_t* bytes, size_t n, uint32_t* tokens, size_t) {
  std::copy(bytes, bytes + n, tokens);
  return n;
}

template <class Function>
const void* address(Function* function) {
  const void* address = nullptr;
  std::memcpy(&address, &function, sizeof(function));
  return address;
}

lh_llguidance stand_in() {
  lh_llguidance all{};
  all.struct_size = sizeof(all);
  all.get_version = address(get_version);
  all.new_tokenizer_v2 = address(new_tokenizer);
  all.free_tokenizer = address(free_tokenizer);
  all.constraint_init_set_defaults = address(set_defaults);
  all.new_matcher = address(new_matcher);
  all.clone_matcher = address(clone_matcher);
  all.free_matcher = address(free_matcher);
  all.matcher_get_error = address(get_error);
  all.matcher_compute_mask_into = address(compute_mask);
  all.matcher_consume_tokens = address(consume);
  all.matcher_compute_ff_tokens = address(compute_ff);
  all.matcher_is_accepting = address(is_over);
  all.matcher_is_stopped = address(is_over);
  all.tokenize_bytes = address(tokenize);
  return all;
}

const char* old_version() { return "llguidance@0.7.30"; }
const char* next_version() { return "llguidance@2.0.0"; }

Request asked(int64_t id, const char* text) {
  Request request(id, kHello, 60);
  request.sampling.grammar = text;
  request.sampling.grammar_kind = LH_GRAMMAR_JSON_SCHEMA;
  return request;
}

// Runs before all tests that need the fake, in any order of tests.
const int32_t handed_over = [] {
  const lh_llguidance functions = stand_in();
  return lh_set_llguidance(&functions, nullptr);
}();

}  // namespace

TEST_CASE("llguidance is taken whole and of the version that this is written for") {
  REQUIRE(handed_over == LH_OK);
  lh_error error{};
  lh_llguidance functions = stand_in();
  functions.struct_size -= 8;
  CHECK(lh_set_llguidance(&functions, &error) == LH_INVALID_ARGUMENT);
  CHECK(std::string(error.message).find("struct_size") == 0);
  functions = stand_in();
  functions.clone_matcher = nullptr;
  CHECK(lh_set_llguidance(&functions, &error) == LH_INVALID_ARGUMENT);
  CHECK(std::string(error.message) == "the address of llg_clone_matcher is missing");
  for (const auto version : {old_version, next_version}) {
    functions = stand_in();
    functions.get_version = address(version);
    CHECK(lh_set_llguidance(&functions, &error) == LH_INVALID_ARGUMENT);
    CHECK(std::string(error.message).find(version()) != std::string::npos);
  }
}

TEST_CASE("functions that older versions lack may be missing, one tokenizer may not") {
  lh_error error{};
  lh_llguidance functions = stand_in();
  functions.get_version = nullptr;
  CHECK(lh_set_llguidance(&functions, &error) == LH_OK);
  std::swap(functions.new_tokenizer, functions.new_tokenizer_v2);
  CHECK(lh_set_llguidance(&functions, &error) == LH_OK);
  functions.new_tokenizer = nullptr;
  CHECK(lh_set_llguidance(&functions, &error) == LH_INVALID_ARGUMENT);
  CHECK(std::string(error.message) == "the address of llg_new_tokenizer_v2 is missing");
}

TEST_CASE("an answer follows the masks, and what is forced comes by itself") {
  failure = {};
  for (const bool stepwise : {false, true}) {
    Fixture f(512, 4, false);
    for (int64_t id = 0; id < 3; ++id) {
      Request request = asked(id, "{\"a\":??,\"b\":?}");
      request.native.step_forced = stepwise ? 1 : 0;
      toy::submit(f.engine, request);
    }
    toy::run_all(f.engine);
    const std::string text = f.text(0);
    CHECK(text.substr(0, 5) == "{\"a\":");
    CHECK(text.substr(7, 5) == ",\"b\":");
    CHECK(f.engine.get(0).n_generated == 14);
    CHECK(f.engine.get(0).complete == 1);
    CHECK(f.engine.stats().n_batches == (stepwise ? 15 : 5));
  }
  CHECK(n_matchers == 0);
}

TEST_CASE("whatever fails in llguidance fails the prompt concerned, and no other") {
  for (const char* function : {"new_tokenizer", "new_matcher", "clone_matcher",
                               "compute_mask", "consume", "compute_ff"}) {
    for (int n_before = 0; n_before < 12; ++n_before) {
      CAPTURE(function);
      CAPTURE(n_before);
      failure = {};
      {
        Fixture f(512, 4, false);
        toy::submit(f.engine, Request(1, kHello, 5));
        failure = {function, n_before};
        bool is_in = true;
        try {
          toy::submit(f.engine, asked(0, "{\"a\":??,\"b\":?}"));
        } catch (const lh::Error& error) {
          is_in = false;
          CHECK(error.code() == LH_SAMPLER_ERROR);
          CHECK(std::string(error.what()).size() > 10);
        }
        toy::run_all(f.engine);
        CHECK(f.engine.get(1).n_generated == 5);
        if (!is_in) CHECK_THROWS_AS(f.engine.get(0), lh::Error);
        if (is_in && f.engine.get(0).finish == LH_FINISH_ERROR) {
          const std::string message = f.engine.get(0).message;
          CHECK(f.engine.get(0).code == LH_SAMPLER_ERROR);
          CHECK(message.find("an injected failure") == 0);
        } else if (is_in) {
          CHECK(f.engine.get(0).complete == 1);
        }
        // The next constraint is not affected by the failure.
        failure = {};
        toy::submit(f.engine, asked(2, "ok?"));
        toy::run_all(f.engine);
        CHECK(f.engine.get(2).complete == 1);
        CHECK(f.engine.info().n_seq_used == 0);
      }
      CHECK(n_matchers == 0);
    }
  }
}

TEST_CASE("no matcher is lost if memory runs out when it is compiled or copied") {
  failure = {};
  for_each_allocation([](const auto& without_memory, bool) {
    {
      Fixture f(512, 4, false);
      without_memory([&] {
        toy::submit(f.engine, asked(0, "ok?"));
        toy::submit(f.engine, asked(1, "ok?"));
      });
    }
    CHECK(n_matchers == 0);
  });
}

TEST_CASE("a constraint that was checked is not compiled again for the engine") {
  failure = {};
  {
    Fixture f(512, 4, false);
    Request request = asked(0, "{\"a\":??}");
    CHECK(lh_sampling_check(f.model.get(), &request.sampling, nullptr) == LH_OK);
    n_compiled = 0;
    toy::submit(f.engine, request);
    toy::submit(f.engine, asked(1, "other?"));
    toy::submit(f.engine, asked(2, "{\"a\":??}"));
    CHECK(n_compiled == 1);
    toy::run_all(f.engine);
    CHECK(f.engine.get(2).complete == 1);
  }
  CHECK(n_matchers == 0);
}

TEST_CASE("what its copies share may fail: it is compiled again") {
  failure = {};
  Fixture f(512, 4, false);
  toy::submit(f.engine, asked(0, "a??"));
  failure = {"compute_mask", 0};
  toy::run_all(f.engine);
  CHECK(f.engine.get(0).finish == LH_FINISH_ERROR);
  failure = {};
  n_compiled = 0;
  toy::submit(f.engine, asked(1, "a??"));
  toy::submit(f.engine, asked(2, "a??"));
  CHECK(n_compiled == 1);
  toy::run_all(f.engine);
  CHECK(f.engine.get(2).complete == 1);
}

TEST_CASE("of a very long text that must come only the start is cut into tokens") {
  failure = {};
  Fixture f(512, 4, false);
  toy::submit(f.engine, asked(0, "a?"));
  std::string text;
  while (text.size() < 1'000'000) text += "a\u00e4";
  std::vector<uint32_t> tokens(text.size());
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const size_t n = tokenizer_init.tokenize(tokenizer_init.user_data, bytes, text.size(),
                                           tokens.data(), tokens.size());
  CHECK(n >= 64);
  CHECK(n <= 4096);
  CHECK(tokenizer_init.tokenize(tokenizer_init.user_data, bytes, 3000, tokens.data(),
                                tokens.size()) == 3000);
}

TEST_CASE("what comes before a stop text is looked at by itself") {
  failure = {};
  Fixture f(512, 4, false);
  Request request = asked(0, "ab!cd");
  request.stop({"!"});
  toy::submit(f.engine, request);
  toy::run_all(f.engine);
  CHECK(f.text(0) == "ab");
  CHECK(f.engine.get(0).complete == 0);
}

TEST_CASE("texts are accepted token by token") {
  failure = {};
  const auto model = toy::model();
  const auto accepts = [&](const char* grammar, const std::string& text) {
    int32_t accepted = -1;
    const int32_t status =
        lh_grammar_accepts(model.get(), LH_GRAMMAR_JSON_SCHEMA, grammar, text.data(),
                           static_cast<int32_t>(text.size()), &accepted, nullptr);
    CHECK(status == LH_OK);
    return accepted;
  };
  CHECK(accepts("a?c", "abc") == 1);
  CHECK(accepts("a?c", "ab") == 0);
  CHECK(accepts("a?c", "abd") == 0);
  CHECK(accepts("a?c", "abcd") == 0);
  int32_t accepted = 0;
  CHECK(lh_grammar_accepts(model.get(), LH_GRAMMAR_LARK, "x", "x", 1, &accepted,
                           nullptr) == LH_SAMPLER_ERROR);
  CHECK(lh_grammar_accepts(model.get(), LH_GRAMMAR_GBNF, "x", "x", 1, &accepted,
                           nullptr) == LH_INVALID_ARGUMENT);
  CHECK(lh_grammar_accepts(model.get(), LH_GRAMMAR_REGEX, nullptr, "x", 1, &accepted,
                           nullptr) == LH_INVALID_ARGUMENT);
}

TEST_CASE("numbers that end llguidance's process are rejected before it reads them") {
  failure = {};
  const auto model = toy::model();
  const auto is_rejected = [&](int32_t kind, const std::string& grammar) {
    int32_t accepted = 0;
    lh_error error{};
    lh_grammar_accepts(model.get(), kind, grammar.c_str(), "x", 1, &accepted, &error);
    return std::string(error.message).find("at least -2^63") != std::string::npos;
  };
  const std::string smallest[] = {"-9223372036854775808",
                                  "-9223372036854775300",
                                  "-9223372036854775808.0",
                                  "-1e19",
                                  "-0.00001E+30",
                                  "-92233720368547758080",
                                  "-" + std::string(4000, '9')};
  const std::string others[] = {
      "-9223372036854774784", "-9.2e18", "-1e-19", "1e99", "-----", "-"};
  for (const std::string& number : smallest) {
    CAPTURE(number);
    const std::string schema = "{\"a\\\"\":[1, " + number + "]}";
    CHECK(is_rejected(LH_GRAMMAR_JSON_SCHEMA, schema));
    CHECK(is_rejected(LH_GRAMMAR_LARK, "start: /\"/ %json " + schema));
    CHECK_FALSE(is_rejected(LH_GRAMMAR_JSON_SCHEMA, "[\"\\\"" + number + "\"]"));
    CHECK_FALSE(is_rejected(LH_GRAMMAR_LARK, "start: \"" + number + "\""));
    CHECK_FALSE(is_rejected(LH_GRAMMAR_REGEX, number));
  }
  for (const std::string& number : others) {
    CAPTURE(number);
    CHECK_FALSE(is_rejected(LH_GRAMMAR_JSON_SCHEMA, "{\"a\":" + number + "}"));
    CHECK_FALSE(is_rejected(LH_GRAMMAR_LARK, "start: %json {\"a\":" + number + "}"));
  }
}
