// Tests that tokens forced by a grammar are computed together, on the toy.
#include <doctest/doctest.h>

#include <limits>
#include <utility>

#include "engine_fixture.hpp"
#include "padding.hpp"

using toy::Request;

namespace {

const char* const kGrammar =
    "root ::= \"the answer is \" (\"abc\" | \"axx\") \", and \" [a-z] \" it is all\"";
constexpr int32_t kLongest = 60;

void submit(lh_engine& engine, int64_t id, bool stepwise, int32_t max_tokens = kLongest,
            float temperature = 0.0F) {
  Request request(id, distinct_prompt(id), max_tokens);
  request.sampling.grammar = kGrammar;
  request.sampling.temperature = temperature;
  request.native.step_forced = stepwise ? 1 : 0;
  toy::submit(engine, request);
}

struct Answers {
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<int32_t> finishes;
  int64_t n_batches;
};

Answers answers(lh_engine& engine, int64_t n) {
  Answers answers;
  for (int64_t id = 0; id < n; ++id) {
    const lh_client_info info = engine.get(id);
    answers.texts.emplace_back(info.text);
    answers.tokens.emplace_back(info.tokens, info.tokens + info.n_generated);
    answers.finishes.push_back(info.finish);
  }
  answers.n_batches = engine.stats().n_batches;
  return answers;
}

void check_same(const Answers& a, const Answers& b) {
  CHECK(a.texts == b.texts);
  CHECK(a.tokens == b.tokens);
  CHECK(a.finishes == b.finishes);
}

}  // namespace

TEST_CASE("the answer is that of one token a step, in fewer steps") {
  for (const bool unified : {true, false}) {
    for (const float temperature : {0.0F, 1.5F}) {
      Answers by_step[2];
      for (const bool stepwise : {false, true}) {
        Fixture f(512, 4, unified);
        for (int64_t id = 0; id < 3; ++id) {
          submit(f.engine, id, stepwise, kLongest, temperature);
        }
        toy::run_all(f.engine);
        by_step[stepwise ? 1 : 0] = answers(f.engine, 3);
      }
      check_same(by_step[0], by_step[1]);
      CHECK(by_step[0].finishes == std::vector<int32_t>(3, LH_FINISH_EOG));
      CHECK(by_step[0].texts[0].find("the answer is a") == 0);
      CHECK(2 * by_step[0].n_batches < by_step[1].n_batches);
    }
  }
}

TEST_CASE("max_tokens and stop texts cut what must come as well") {
  for (int32_t max_tokens = 1; max_tokens < 45; ++max_tokens) {
    Answers by_step[2];
    for (const bool stepwise : {false, true}) {
      Fixture f(512, 4, false);
      submit(f.engine, 0, stepwise, max_tokens);
      toy::run_all(f.engine);
      by_step[stepwise ? 1 : 0] = answers(f.engine, 1);
    }
    check_same(by_step[0], by_step[1]);
    CHECK(by_step[0].tokens[0].size() <= static_cast<size_t>(max_tokens));
  }
  Fixture f(512, 4, false);
  Request request(0, distinct_prompt(0), kLongest);
  request.sampling.grammar = kGrammar;
  request.stop({"swer"});
  toy::submit(f.engine, request);
  toy::run_all(f.engine);
  CHECK(f.text(0) == "the an");
  CHECK(f.engine.get(0).finish == LH_FINISH_STOP);
}

TEST_CASE("an answer that is known ends without a step, and that is told") {
  Fixture f(512, 4, false);
  Request request(7, distinct_prompt(0), kLongest);
  request.sampling.grammar = "root ::= \"all of it\"";
  toy::submit(f.engine, request);
  CHECK(f.engine.get(7).state == LH_STATE_FINISHED);
  const toy::Ran ran = toy::run(f.engine);
  CHECK(ran.events == std::vector<int64_t>{7});
  CHECK(ran.result.n_steps == 0);
  CHECK(f.text(7) == "all of it");
  CHECK(f.engine.get(7).complete == 1);
  CHECK(toy::run(f.engine).events.empty());
  // A request that was released before is not reported.
  request.native.id = 8;
  toy::submit(f.engine, request);
  f.engine.release(8);
  CHECK(toy::run(f.engine).events.empty());
}

TEST_CASE("a pause, a resize and a failed batch lose none of them") {
  const Answers expected = [] {
    Fixture f(512, 4, false);
    submit(f.engine, 0, true);
    toy::run_all(f.engine);
    return answers(f.engine, 1);
  }();
  for (int32_t n_steps = 0; n_steps < 8; ++n_steps) {
    for (const bool stepwise : {false, true}) {
      Fixture f(512, 4, false);
      submit(f.engine, 0, stepwise);
      if (n_steps > 0) toy::run(f.engine, n_steps);
      if (f.engine.get(0).finish != LH_FINISH_NONE) continue;
      f.engine.pause(0);
      f.engine.resize(toy::engine_params(1024, 2, false));
      f.engine.resume(0);
      bool has_failed = false;
      fake::settings().fault = [&](int64_t, const std::vector<int32_t>&) {
        const bool fails = !std::exchange(has_failed, true);
        return fails ? fake::Fault::kNoSlot : fake::Fault::kNone;
      };
      CHECK(toy::run(f.engine, 1).status == LH_DECODE_ERROR);
      toy::run_all(f.engine);
      check_same(answers(f.engine, 1), expected);
    }
  }
}

TEST_CASE("the deterministic mode computes them as it computes prompts") {
  Answers by_step[2];
  for (const bool stepwise : {false, true}) {
    Fixture f;
    fake::settings().uniform_rows = lh::kUniformRows;
    lh_engine engine(*f.model, toy::deterministic_params(128, 8));
    for (int64_t id = 0; id < 5; ++id) submit(engine, id, stepwise);
    toy::run_all(engine);
    by_step[stepwise ? 1 : 0] = answers(engine, 5);
  }
  check_same(by_step[0], by_step[1]);
}

TEST_CASE("drafts and what must come go together") {
  for (const bool draft : {false, true}) {
    Endless f(1024, 4, false);
    for (int64_t id = 0; id < 2; ++id) {
      Request request(id, distinct_prompt(id), 90);
      request.sampling.grammar = "root ::= (\"again and again the same \" [a-b])+";
      request.may_draft(draft);
      toy::submit(f.engine, request);
    }
    toy::run_all(f.engine);
    for (int64_t id = 0; id < 2; ++id) {
      CHECK(f.engine.get(id).n_generated == 90);
      CHECK(f.engine.get(id).finish == LH_FINISH_LENGTH);
      CHECK(f.text(id).find("again and again the same ") == 0);
    }
  }
}

TEST_CASE("what is forbidden does not come because it must") {
  Fixture f(512, 4, false);
  Request request(0, distinct_prompt(0), kLongest);
  request.sampling.grammar = "root ::= \"ab\"";
  const int32_t token[] = {'b'};
  const float value[] = {-std::numeric_limits<float>::infinity()};
  request.sampling.n_logit_bias = 1;
  request.sampling.logit_bias_token = token;
  request.sampling.logit_bias_value = value;
  toy::submit(f.engine, request);
  toy::run_all(f.engine);
  CHECK(f.engine.get(0).finish == LH_FINISH_ERROR);
  CHECK(std::string(f.engine.get(0).message).find("logit_bias") != std::string::npos);
}

TEST_CASE("many answers advance token by token, unless all have to go as far") {
  std::vector<lh::AnswerLength> many;
  for (int32_t id = 0; id < 40; ++id) many.push_back({id, id % 3 == 0 ? 5 : 1});
  CHECK(lh::answer_limit(many, false) == 1);
  for (auto& answer : many) answer.n_tokens = 4;
  CHECK(lh::answer_limit(many, false) == INT32_MAX);
  CHECK(lh::answer_limit({{3, 9}}, false) == INT32_MAX);
  CHECK(lh::answer_limit({{0, 6}, {1, 1}}, false) == INT32_MAX);
  CHECK(lh::answer_limit({{0, 1}, {1, 1}}, true) == INT32_MAX);
}
