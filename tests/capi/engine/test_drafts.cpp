// Tests of draft tokens in repetitive text, which are computed together.
#include <doctest/doctest.h>

#include "answer.hpp"
#include "engine_fixture.hpp"

using toy::Request;

namespace {

void submit(lh_engine& engine, int64_t n_prompts, int32_t max_tokens,
            bool may_draft = true) {
  for (int64_t id = 0; id < n_prompts; ++id) {
    toy::submit(engine,
                Request(id, distinct_prompt(id), max_tokens).may_draft(may_draft));
  }
}

// The toy repeats its text without end.
void repeat() {
  fake::settings().eos_share = 0;
  fake::settings().repeat_share = 1;
}

}  // namespace

TEST_CASE("a text that repeats itself is guessed to go on so") {
  using Tokens = std::vector<int32_t>;
  const Tokens period = {1, 2, 3, 4, 5, 6, 7, 8};
  Tokens text = {9, 9};
  text.insert(text.end(), period.begin(), period.end());
  text.insert(text.end(), period.begin(), period.end() - 2);
  CHECK(lh::prompt_lookup(text, 2) == Tokens{7, 8});
  CHECK(lh::prompt_lookup(text, 12) == Tokens{7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2});
  CHECK(lh::prompt_lookup(Tokens(7, 3), 3) == Tokens{3, 3, 3});
  // The tokens after the latest occurrence are used.
  text.insert(text.end(), {0, 1, 2, 3, 4, 5, 6});
  CHECK(lh::prompt_lookup(text, 1) == Tokens{0});
  text.back() = 9;
  CHECK(lh::prompt_lookup(text, 3).empty());
  CHECK(lh::prompt_lookup(period, 3).empty());
  CHECK(lh::prompt_lookup(Tokens(6, 3), 3).empty());
  CHECK(lh::prompt_lookup({}, 3).empty());
}

TEST_CASE("answers that repeat themselves take several tokens a step") {
  for (const bool unified : {true, false}) {
    Fixture f(512, 4, unified);
    repeat();
    submit(f.engine, 2, 61);
    toy::run_all(f.engine);
    for (const int64_t id : {0, 1}) {
      CHECK(f.text(id) == fake::answer(distinct_prompt(id), 61));
      CHECK(f.engine.get(id).n_generated == 61);
    }
    const lh_stats stats = f.engine.stats();
    CHECK(stats.n_generated == 2 * 61);
    CHECK(stats.n_draft > 61);
    CHECK(stats.n_draft <= 3 * stats.n_clients);
    CHECK(stats.n_batches < 30);
    CHECK(fake::n_cells_left() == 0);
  }
}

TEST_CASE("what is guessed wrongly leaves nothing behind") {
  for (const bool unified : {true, false}) {
    for (const double repeat_share : {0.8, 0.9, 0.95}) {
      Fixture f(1024, 4, unified);
      fake::settings().eos_share = 0.01;
      fake::settings().repeat_share = repeat_share;
      fake::settings().n_swa = 16;
      submit(f.engine, 4, 150);
      // Runs of selected ids use no drafts.
      const std::vector<int64_t> all = {0, 1, 2, 3};
      bool draft = true;
      while (toy::run(f.engine, 1, draft ? nullptr : &all).result.n_active > 0) {
        for (int64_t id = 0; id < 4; ++id) {
          const lh_client_info client = f.engine.get(id);
          if (client.state != LH_STATE_DECODE) continue;
          const int32_t n_tokens = client.n_prompt + client.n_generated;
          CHECK(client.n_cells == n_tokens - client.n_pending);
        }
        draft = !draft;
      }
      CHECK(f.engine.stats().n_draft > 0);
      CHECK(f.engine.stats().n_failed_decodes == 0);
      for (int64_t id = 0; id < 4; ++id) {
        CHECK(f.text(id) == fake::answer(distinct_prompt(id), 150));
      }
      CHECK(fake::n_cells_left() == 0);
    }
  }
}

TEST_CASE("nothing is guessed while forced tokens wait for a later batch") {
  Fixture f(2048, 8, false);
  repeat();
  submit(f.engine, 6, 100);
  Request forced(6, distinct_prompt(6), 100);
  forced.may_draft().sampling.grammar = "root ::= ([ab] \"xyxyxy\")+";
  toy::submit(f.engine, std::move(forced));
  toy::run_all(f.engine);
  CHECK(f.engine.stats().n_draft > 0);
  CHECK(f.engine.stats().n_failed_decodes == 0);
  CHECK(f.engine.get(6).n_generated == 100);
}

TEST_CASE("a guess takes no cell that is not there") {
  for (const bool unified : {true, false}) {
    const auto n_each = static_cast<int32_t>(distinct_prompt(1).size()) + 40;
    Endless f(2 * n_each, 2, unified);
    repeat();
    submit(f.engine, 2, 40);
    toy::run_all(f.engine);
    CHECK(f.engine.stats().n_failed_decodes == 0);
    CHECK(f.engine.stats().n_draft > 0);
    for (const int64_t id : {0, 1}) CHECK(f.engine.get(id).n_generated == 40);
  }
}

TEST_CASE("a batch with guesses that fails leaves all as it was") {
  Fixture f(512, 4, false);
  repeat();
  submit(f.engine, 2, 60);
  toy::run(f.engine, 8);
  CHECK(f.engine.stats().n_draft > 0);
  const int32_t n_cells = fake::n_cells_left();
  fake::settings().fault = [](int64_t, const std::vector<int32_t>&) {
    return fake::Fault::kFatal;
  };
  CHECK(toy::run(f.engine, 1).status == LH_DECODE_ERROR);
  CHECK(fake::n_cells_left() == n_cells);
  fake::settings().fault = nullptr;
  toy::run_all(f.engine);
  for (const int64_t id : {0, 1})
    CHECK(f.text(id) == fake::answer(distinct_prompt(id), 60));
}

TEST_CASE("penalties see each token in turn, guessed or not") {
  std::vector<std::string> texts;
  for (const bool draft : {false, true}) {
    Fixture f(512, 4, false);
    repeat();
    for (int64_t id = 0; id < 2; ++id) {
      Request request(id, distinct_prompt(id), 80);
      request.may_draft(draft);
      request.sampling.penalty_freq = 0.1F;
      request.sampling.repeat_last_n = -1;
      toy::submit(f.engine, std::move(request));
    }
    toy::run_all(f.engine);
    CHECK((f.engine.stats().n_draft > 0) == draft);
    texts.push_back(f.text(0) + f.text(1));
  }
  CHECK(texts[0] == texts[1]);
}

TEST_CASE("nothing is guessed for many, nor where it may not be") {
  const auto n_draft = [&](lh_engine& engine, bool draft) {
    repeat();
    submit(engine, 4, 30, draft);
    toy::run_all(engine);
    return engine.stats().n_draft;
  };
  Fixture few(512, 4, false);
  CHECK(n_draft(few.engine, false) == 0);
  for (const int32_t n_many : {8, 9}) {
    Fixture many(1024, 16, false);
    repeat();
    submit(many.engine, n_many, 60);
    CHECK(toy::run(many.engine, 25).result.n_active == n_many);
    CHECK((many.engine.stats().n_draft > 0) == (n_many == 8));
  }
  Fixture drawn(512, 4, false);
  repeat();
  for (int64_t id = 0; id < 4; ++id) {
    Request request(id, distinct_prompt(id), 30);
    request.may_draft().sampling.temperature = 1e-6F;
    toy::submit(drawn.engine, std::move(request));
  }
  toy::run_all(drawn.engine);
  CHECK(drawn.engine.stats().n_draft == 0);
  // At least three of four answers must have a draft.
  for (const int64_t n_greedy : {2, 3}) {
    Fixture mixed(512, 4, false);
    repeat();
    for (int64_t id = 0; id < 4; ++id) {
      Request request(id, distinct_prompt(id), 30);
      request.may_draft();
      if (id >= n_greedy) request.sampling.temperature = 1e-6F;
      toy::submit(mixed.engine, std::move(request));
    }
    toy::run_all(mixed.engine);
    CHECK((mixed.engine.stats().n_draft > 0) == (n_greedy == 3));
  }
  Fixture recurrent(512, 4, false, true);
  CHECK(n_draft(recurrent.engine, true) == 0);
  fake::reset();
  const auto model = toy::model();
  lh_engine deterministic(*model, toy::deterministic_params(64, 4));
  CHECK(n_draft(deterministic, true) == 0);
}
