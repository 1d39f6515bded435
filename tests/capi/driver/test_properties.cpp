// Tests properties with random prompts, settings and faults: each prompt has exactly one
// result, each prompt that did not fail has the same text as when it runs alone, and no
// cells are left.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "herd.hpp"
#include "toy.hpp"

namespace {

using fake::Fault;

struct Scenario {
  explicit Scenario(uint32_t seed) : random(seed) {}

  int32_t number(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random);
  }
  bool chance(double p) { return std::bernoulli_distribution(p)(random); }

  // Prompts that share prefixes at several depths, some equal, some empty or impossible.
  std::vector<lh::HerdPrompt> prompts() {
    std::vector<lh::HerdPrompt> out(static_cast<size_t>(number(1, 25)));
    const int32_t n_groups = number(1, 4);
    for (lh::HerdPrompt& prompt : out) {
      const int32_t group = number(0, n_groups);
      const int32_t shared = number(0, 50);
      for (int32_t i = 0; i < shared; ++i) prompt.tokens.push_back(group * 10 + i / 20);
      const int32_t n_distinct = number(chance(0.03) ? 0 : 1, 30);
      for (int32_t i = 0; i < n_distinct; ++i) prompt.tokens.push_back(number(0, 255));
      if (chance(0.03)) prompt.tokens.push_back(fake::kVocab + 5);
    }
    return out;
  }

  std::mt19937 random;
};

// Fewer scenarios under valgrind, where each needs fifty times as long.
uint32_t n_scenarios() {
  const char* text = std::getenv("LLAMAHERD_TEST_SCENARIOS");
  return text == nullptr ? 2000 : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

bool is_possible(const lh::HerdPrompt& prompt, int32_t max_tokens, int32_t n_ctx) {
  return !prompt.tokens.empty() &&
         *std::max_element(prompt.tokens.begin(), prompt.tokens.end()) < fake::kVocab &&
         static_cast<int32_t>(prompt.tokens.size()) + max_tokens <= n_ctx;
}

}  // namespace

TEST_CASE("every prompt has one result and the engine is empty, whatever happens") {
  uint32_t n_answered = 0;
  uint32_t n_failed = 0;
  int64_t n_draft = 0;
  for (uint32_t seed = 0; seed < n_scenarios(); ++seed) {
    CAPTURE(seed);
    Scenario s(seed);
    fake::reset();
    fake::settings().eos_share = s.chance(0.5) ? 0.0 : 0.1;
    fake::settings().repeat_share = s.chance(0.5) ? 0.95 : 0.0;
    fake::settings().recurrent = s.chance(0.2);
    fake::settings().fail_state = s.chance(0.1);
    const int32_t n_slots = s.number(1, 8);
    const int32_t n_hold = s.number(0, 3);
    const int32_t n_ctx_seq = s.number(60, 150);
    const bool deterministic = s.chance(0.3) && !fake::settings().recurrent;
    fake::settings().uniform_rows = deterministic ? lh::kUniformRows : 1;
    const int32_t max_tokens = s.number(1, 30);
    const bool faults = s.chance(0.4);
    if (faults) {
      fake::settings().fault = [&s](int64_t, const std::vector<int32_t>&) {
        if (!s.chance(0.05)) return Fault::kNone;
        const Fault all[] = {Fault::kNoSlot, Fault::kInvalid, Fault::kFatal,
                             Fault::kThrow,  Fault::kNan,     Fault::kNull};
        return all[s.number(0, 5)];
      };
    }
    const auto model = toy::model();
    lh_engine_params params =
        deterministic
            ? toy::deterministic_params(n_ctx_seq, n_slots + n_hold)
            : toy::engine_params(n_ctx_seq * (n_slots + n_hold), n_slots + n_hold, false);
    lh_engine engine(*model, params);
    lh::HerdSettings settings{toy::greedy(), max_tokens, n_slots, n_hold, n_ctx_seq};
    const auto prompts = s.prompts();
    lh::Herd herd(engine, prompts, lh::herd_prefixes(prompts, settings.max_tokens),
                  settings);
    REQUIRE(herd.run());
    REQUIRE(herd.results().size() == prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      CAPTURE(i);
      const lh::HerdResult& result = herd.results()[i];
      if (!is_possible(prompts[i], max_tokens, n_ctx_seq)) {
        CHECK(result.failed);
        CHECK_FALSE(result.text.empty());
      } else if (!result.failed) {
        CHECK(result.text == fake::answer(prompts[i].tokens, max_tokens));
        ++n_answered;
      } else {
        CHECK(faults);
        ++n_failed;
      }
    }
    n_draft += engine.stats().n_draft;
    CHECK(fake::n_cells_left() == 0);
    CHECK(engine.info().n_cells_used == 0);
    CHECK(engine.info().n_seq_used == 0);
    CHECK(fake::counts().n_violations == 0);
  }
  // Most scenarios must succeed; otherwise the test shows little.
  CHECK(n_answered > 5 * n_scenarios());
  CHECK(n_failed > n_scenarios() / 20);
  CHECK(n_draft > n_scenarios());
}
