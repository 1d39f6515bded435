// Tests the ends of answers that follow a grammar or are a choice, on the toy model.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "choices.hpp"
#include "engine_fixture.hpp"
#include "guard.hpp"
#include "sampler.hpp"

using toy::Request;
using toy::Texts;

namespace {

struct Answer {
  lh_client_info info;
  std::string text;
  std::string message;
};

// Returns the result of one request with these settings.
template <class Change>
Answer answer(int32_t max_tokens, Change&& change,
              const std::string& prompt = "hello there") {
  Endless f;
  Request request(1, toy::tokens(prompt), max_tokens);
  change(request);
  toy::submit(f.engine, request);
  toy::run_all(f.engine);
  const lh_client_info info = f.engine.get(1);
  CHECK(static_cast<size_t>(info.n_text) == std::string(info.text).size());
  return {info, info.text, info.message};
}

std::string reason(const std::vector<std::string>& texts) {
  try {
    lh::Choices::check(texts);
  } catch (const lh::Error& e) {
    CHECK(e.code() == LH_INVALID_ARGUMENT);
    return e.what();
  }
  return "";
}

constexpr int32_t kB = 'b';
constexpr float kNever = -INFINITY;

}  // namespace

TEST_CASE("an answer whose grammar cannot be finished fails") {
  // Cases: an empty class, a rule that never ends, a bias against a forced token.
  for (const char* gbnf : {"root ::= \"a\" [^\\x01-\\U0010ffff]", "root ::= root",
                           "root ::= \"ab\"", "root ::= \"ab\" | \"a\" root"}) {
    CAPTURE(std::string(gbnf));
    const Answer a = answer(20, [&](Request& r) {
      r.sampling.grammar = gbnf;
      r.sampling.n_logit_bias = 2;
      static const int32_t tokens[] = {kB, 'a'};
      static const float values[] = {kNever, 0.0F};
      r.sampling.logit_bias_token = tokens;
      r.sampling.logit_bias_value = values;
    });
    const bool goes_on = std::string(gbnf).find("\"a\" root") != std::string::npos;
    CHECK(a.info.complete == 0);
    CHECK(a.info.finish == (goes_on ? LH_FINISH_LENGTH : LH_FINISH_ERROR));
    CHECK((a.message.find("grammar cannot be finished after \"") == 0) == !goes_on);
  }
}

TEST_CASE("settings that forbid every token and the end are an error") {
  std::vector<int32_t> tokens;
  for (int32_t token = 0; token < fake::kVocab; ++token) tokens.push_back(token);
  const std::vector<float> values(tokens.size(), kNever);
  const Answer a = answer(5, [&](Request& r) {
    r.sampling.n_logit_bias = fake::kVocab;
    r.sampling.logit_bias_token = tokens.data();
    r.sampling.logit_bias_value = values.data();
  });
  CHECK(a.info.finish == LH_FINISH_ERROR);
  CHECK(a.message.find("logit_bias") != std::string::npos);
  const Answer whole = answer(5, [&](Request& r) {
    r.sampling.grammar = "root ::= \"\" | \"a\"";
    r.sampling.n_logit_bias = fake::kVocab;
    r.sampling.logit_bias_token = tokens.data();
    r.sampling.logit_bias_value = values.data();
  });
  CHECK(whole.info.finish == LH_FINISH_EOG);
  CHECK(whole.info.complete == 1);
}

TEST_CASE("an answer is complete where it came to its own end") {
  const auto with = [](const char* gbnf, int32_t max_tokens) {
    return answer(max_tokens, [&](Request& r) { r.sampling.grammar = gbnf; });
  };
  // The answer ends without a further step, at its last possible token.
  const Answer whole = with("root ::= \"abc\"", 3);
  CHECK(whole.text == "abc");
  CHECK(whole.info.finish == LH_FINISH_EOG);
  CHECK(whole.info.complete == 1);
  const Answer cut = with("root ::= \"abc\"", 2);
  CHECK(cut.text == "ab");
  CHECK(cut.info.finish == LH_FINISH_LENGTH);
  CHECK(cut.info.complete == 0);
  // The answer may end there or continue.
  const Answer open = with("root ::= [0-9]+", 3);
  CHECK(open.text.size() == 3);
  CHECK(open.info.finish == LH_FINISH_LENGTH);
  CHECK(open.info.complete == 0);
  const Answer free = answer(3, [](Request&) {});
  CHECK(free.info.complete == 0);
}

TEST_CASE("a stop text ends an answer well only where its grammar does") {
  struct Case {
    const char* gbnf;
    const char* text;
    int32_t complete;
  };
  const Case cases[] = {
      {"root ::= \"ab\" (\";\" \"c\")? \";\"", "ab", 0},
      {"root ::= \"ab\" (\";\" \"c\"?)?", "ab", 1},
      {"root ::= \"ab;c\"", "ab", 0},
      {"root ::= \"ab\" | \"ab;\"", "ab", 1},
      {"root ::= \"\\u00e9|\" \"-\" \"x\" | \"\\u00e9\"", "\xC3\xA9", 1},
      {"root ::= \"\\u00e9|\" \"-\" \"x\"", "\xC3\xA9", 0},
      {"root ::= <|x|> \"a;\" | <|x|> \"a\"", "a", 1},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.gbnf));
    const Answer a = answer(9, [&](Request& r) {
      r.sampling.grammar = c.gbnf;
      r.sampling.ignore_eos = 1;
      r.stop({";", "|-"});
    });
    CHECK(a.text == c.text);
    CHECK(a.info.finish == LH_FINISH_STOP);
    CHECK(a.info.complete == c.complete);
  }
}

TEST_CASE("a stop token ends an answer well only where its grammar may end") {
  struct Case {
    const char* gbnf;
    const char* text;
    int32_t complete;
  };
  const Case cases[] = {
      {"root ::= \"ab;c\"", "ab", 0},
      {"root ::= \"ab\" (\";\" \"c\"?)?", "ab", 1},
      {"root ::= \"ab\"", "ab", 1},
  };
  const int32_t stop[] = {';'};
  for (const Case& c : cases) {
    CAPTURE(std::string(c.gbnf));
    const Answer a = answer(9, [&](Request& r) {
      r.sampling.grammar = c.gbnf;
      r.sampling.ignore_eos = 1;
      r.sampling.n_stop_token_ids = 1;
      r.sampling.stop_token_ids = stop;
    });
    CHECK(a.text == c.text);
    CHECK(a.info.complete == c.complete);
  }
  const Texts texts({"a;b", "c;d"});
  const Answer chosen = answer(9, [&](Request& r) {
    texts.put(r.sampling);
    r.sampling.n_stop_token_ids = 1;
    r.sampling.stop_token_ids = stop;
  });
  CHECK(chosen.text.size() == 3);
  CHECK(chosen.info.complete == 1);
}

TEST_CASE("an answer is one of the choices, whatever they are") {
  const std::vector<std::vector<std::string>> lists = {
      {"yes", "no"},
      {"a", "ab", "abc", "b"},
      {" ", " a", "a", "\n", "\"quoted\"", "back\\slash", "\\n"},
      {"\xC3\xA9", "\xF0\x9F\x98\x80", "\xF0\x9F\x98\x81 ", "root ::= \"x\""},
      {"only one"},
      {std::string(200, 'x'), std::string(200, 'x') + "y"},
  };
  std::mt19937 random(5);
  for (const auto& list : lists) {
    const Texts texts(list);
    size_t longest = 0;
    for (const std::string& text : list) longest = std::max(longest, text.size());
    for (int round = 0; round < 20; ++round) {
      const Answer a = answer(
          static_cast<int32_t>(longest) + 1,
          [&](Request& r) {
            texts.put(r.sampling);
            r.sampling.temperature = round % 2 == 0 ? 0.0F : 1.5F;
            r.sampling.seed = random();
          },
          "prompt " + std::to_string(random()));
      CHECK(std::count(list.begin(), list.end(), a.text) == 1);
      CHECK(a.info.finish == LH_FINISH_EOG);
      CHECK(a.info.complete == 1);
    }
  }
}

TEST_CASE("whatever does not go on to a longer choice ends one that is whole") {
  const auto model = toy::model();
  const Texts texts({"a", "ab"});
  lh_sampling_params p = toy::greedy();
  texts.put(p);
  for (const int32_t next : {kB, int32_t{'x'}, fake::kEos}) {
    lh::SamplerCache cache;
    lh::Sampler sampler(*model, p, cache);
    lh::LogitRow peaks(fake::kVocab);
    std::vector<llama_token_data> room;
    const auto draw = [&](int32_t best) {
      std::vector<float> row(fake::kVocab, 0.0F);
      row[static_cast<size_t>(best)] = 5.0F;
      sampler.read(row.data(), peaks);
      return sampler.sample(peaks, room);
    };
    CHECK(draw('a') == 'a');
    CHECK(!sampler.is_settled());
    const int32_t then = draw(next);
    CHECK(then == (next == 'x' ? lh::Sampler::kEnd : next));
    CHECK(sampler.is_settled() == (next == kB));
  }
}

TEST_CASE("a choice is told when it is known, without the space before it") {
  Endless f;
  const Texts texts({"abcdef", "abxdef", "abzdef"});
  Request request(1, kHello, 4);
  texts.put(request.sampling);
  static const int32_t tokens[] = {' '};
  static const float values[] = {1000.0F};
  request.sampling.n_logit_bias = 1;
  request.sampling.logit_bias_token = tokens;
  request.sampling.logit_bias_value = values;
  request.native.step_forced = 1;
  toy::submit(f.engine, request);
  for (int step = 0; step < 3; ++step) {
    toy::run(f.engine, 1);
    CHECK(f.engine.get(1).n_generated == step + 1);
    CHECK(f.engine.get(1).n_text == 0);
  }
  toy::run_all(f.engine);
  CHECK(f.engine.get(1).n_generated == 4);
  CHECK(f.engine.get(1).complete == 1);
  CHECK(std::string(f.engine.get(1).text).size() == 6);
}

TEST_CASE("a space before a choice is told from one that is part of it") {
  const auto model = toy::model();
  const auto end_of = [&](const lh::Choices& choices, const std::string& text) {
    int32_t node = lh::Choices::kStart;
    for (const char c : text) node = choices.tree()->child(node, static_cast<uint8_t>(c));
    return node;
  };
  const auto of = [&](const lh::Choices::Texts& texts) {
    return lh::Choices(std::make_shared<const lh::Choices::Texts>(texts), *model);
  };
  const lh::Choices plain = of({"a", "ab", "long"});
  CHECK(plain.ended_by(end_of(plain, " a")) == 0);
  CHECK(plain.only(end_of(plain, " a")) == -1);
  CHECK(plain.only(end_of(plain, "ab")) == 1);
  CHECK(plain.only(end_of(plain, " l")) == 2);
  CHECK(plain.tree()->child(lh::Choices::kStart, 'x') == lh::Choices::kStart);
  CHECK(plain.text(end_of(plain, " a"), " a", true) == "a");
  CHECK(plain.text(end_of(plain, " lo"), " lo", true) == "long");
  CHECK(plain.text(end_of(plain, " lo"), " lo", false) == "lo");
  CHECK(plain.text(end_of(plain, " "), " ", false).empty());
  CHECK(plain.text(lh::Choices::kStart, "", false).empty());
  const lh::Choices spaced = of({"a", " a", " bc", "b"});
  CHECK(spaced.ended_by(end_of(spaced, " a")) == 1);
  CHECK(spaced.ended_by(end_of(spaced, "a")) == 0);
  CHECK(spaced.ended_by(end_of(spaced, " b")) == 3);
  CHECK(spaced.text(end_of(spaced, " bc"), " bc", true) == " bc");
}

TEST_CASE("paths of choices have to be a tree whose leaves are choices") {
  const auto model = toy::model();
  const auto texts =
      std::make_shared<const lh::Choices::Texts>(lh::Choices::Texts{"ab", "ac"});
  const int32_t tokens[] = {'a', 'b', 'c'};
  const auto message = [&](std::vector<int32_t> parents, std::vector<int32_t> choices) {
    const lh_choice_paths paths{sizeof(lh_choice_paths), 3, tokens, parents.data(),
                                choices.data()};
    try {
      const lh::Choices with_paths(texts, *model, paths);
      CHECK(with_paths.has_paths(&paths));
      CHECK(!with_paths.has_paths(nullptr));
    } catch (const lh::Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(message({-1, 0, 0}, {-1, 0, 1}).empty());
  CHECK(message({-1, 1, 0}, {-1, 0, 1}).find("paths parent[1]") == 0);
  CHECK(message({-1, 0, 0}, {-1, 0, 2}).find("paths choice[2]") == 0);
  CHECK(message({-1, 0, 0}, {-1, 0, -1}).find("paths choice[2] is -1") == 0);
}

TEST_CASE("the most probable choice is the one that all paths are weighed for") {
  const std::vector<std::string> list = {"ab", "ac", "b", "bcd", "cc", "cd", "c"};
  const Texts texts(list);
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const std::string prompt = "prompt " + std::to_string(random());
    // Scores all continuations, with and without a leading space.
    const auto model = toy::model();
    const lh::Choices choices(std::make_shared<const lh::Choices::Texts>(list), *model);
    const lh_score tree{
        sizeof(lh_score), static_cast<int32_t>(choices.tree()->tokens().size()),
        choices.tree()->tokens().data(), choices.tree()->parents().data()};
    Endless f;
    Request scored(1, toy::tokens(prompt), 4);
    scored.native.score = &tree;
    toy::submit(f.engine, scored);
    Request asked(2, toy::tokens(prompt), 4);
    texts.put(asked.sampling);
    toy::submit(f.engine, asked);
    Request told(3, toy::tokens(prompt), 4);
    texts.put(told.sampling);
    told.native.logprobs = 1;
    toy::submit(f.engine, told);
    toy::run_all(f.engine);
    const double* scores = f.engine.get(1).scores;
    std::vector<double> sums;
    double best = -1e9;
    int32_t winner = -1;
    for (size_t k = 0; k < choices.tree()->tokens().size(); ++k) {
      const int32_t p = choices.tree()->parents()[k];
      sums.push_back(scores[k] + (p < 0 ? 0.0 : sums[static_cast<size_t>(p)]));
      if (choices.ends()[k] < 0) continue;
      double rest = 1.0;
      for (size_t c = 0; c < choices.tree()->tokens().size(); ++c) {
        if (choices.tree()->parents()[c] == static_cast<int32_t>(k))
          rest -= std::exp(scores[c]);
      }
      const double whole = sums[k] + std::log(std::max(rest, 1e-7));
      if (whole > best) {
        best = whole;
        winner = choices.ends()[k];
      }
    }
    CHECK(std::string(f.engine.get(2).text) == list[static_cast<size_t>(winner)]);
    CHECK(std::string(f.engine.get(3).text) == list[static_cast<size_t>(winner)]);
    CHECK(f.engine.get(2).finish == LH_FINISH_EOG);
    CHECK(f.engine.get(2).complete == 1);
    CHECK(f.engine.get(2).n_scores == 0);
    CHECK(f.engine.get(3).n_generated == f.engine.get(2).n_generated);
    CHECK(f.engine.get(3).n_logprobs == f.engine.get(3).n_generated);
  }
}

TEST_CASE("a text that is no choice is named") {
  CHECK(reason({"a", ""}) == "choices[1] must not be empty");
  CHECK(reason({std::string("a\0b", 3)}) ==
        "choices[0] must not contain a NUL character");
  CHECK(reason({"a", "b", "\xFF"}) == "choices[2] is not valid UTF-8");
  CHECK(reason({"a", "a"}).empty());

  const auto model = toy::model();
  lh_sampling_params p = toy::greedy();
  CHECK_NOTHROW(lh::check_sampling(*model, p));
  const Texts texts({"a"});
  texts.put(p);
  CHECK_NOTHROW(lh::check_sampling(*model, p));
  p.grammar = "root ::= \"a\"";
  CHECK_THROWS_WITH_AS(lh::check_sampling(*model, p),
                       "grammar and choices cannot be given together: choices are a "
                       "grammar",
                       lh::Error);
  p.n_choices = 0;
  CHECK_NOTHROW(lh::check_sampling(*model, p));
  p.grammar = "positive";
  lh_error error{};
  CHECK(lh_sampling_check(model.get(), &p, &error) == LH_SAMPLER_ERROR);
  const std::string message = error.message;
  CHECK(message.find("grammar cannot be parsed: line 1: expected ::=") == 0);
  CHECK(message.find("by choices") != std::string::npos);
  CHECK(lh_sampling_check(model.get(), nullptr, &error) == LH_INVALID_ARGUMENT);
}

TEST_CASE("a hundred thousand choices are one tree of their beginnings") {
  lh::Choices::Texts list;
  for (int i = 0; i < 100'000; ++i) list.push_back("label " + std::to_string(i));
  const auto model = toy::model();
  const auto choices = std::make_shared<const lh::Choices>(
      std::make_shared<const lh::Choices::Texts>(list), *model);
  lh::ChoiceConstraint constraint(choices, *model);
  CHECK(constraint.allowed_tokens() == std::vector<int32_t>{' ', 'l'});
  for (const char c : std::string(" label 99999")) {
    CHECK(!constraint.is_complete() == (constraint.allows(fake::kEos) == false));
    constraint.accept(static_cast<uint8_t>(c));
  }
  CHECK(constraint.is_at_end());
}

TEST_CASE("large settings are there once, however many ask for the same") {
  const auto model = toy::model();
  lh::SamplerCache cache;
  lh_sampling_params p = toy::greedy();
  const Texts texts({"a", "b"});
  texts.put(p);
  const int32_t tokens[] = {1, 2};
  const float values[] = {1.0F, kNever};
  p.n_logit_bias = 2;
  p.logit_bias_token = tokens;
  p.logit_bias_value = values;
  const auto choices = cache.choices(*model, p, nullptr);
  const auto bias = cache.bias(p);
  const Texts same({"a", "b"});
  same.put(p);
  CHECK((cache.choices(*model, p, nullptr) == choices));
  CHECK((cache.bias(p) == bias));
  const Texts other({"a", "c"});
  other.put(p);
  p.n_logit_bias = 1;
  CHECK((cache.choices(*model, p, nullptr) != choices));
  CHECK((cache.bias(p) != bias));
}
