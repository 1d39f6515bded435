// Tests the contents of the engine's batches, on the toy model.
#include <doctest/doctest.h>

#include "engine_fixture.hpp"
#include "guard.hpp"

using toy::Request;

namespace {

// From now on, `order` contains the sequence ids of the latest batch, in batch order.
void record_order(std::vector<int32_t>& order) {
  fake::settings().fault = [&order](int64_t, const std::vector<int32_t>& ids) {
    order = ids;
    return fake::Fault::kNone;
  };
}

// Submits prompts with answers of five tokens, with ids 0, 1, 2 ...
struct ShortPrompts {
  ShortPrompts(Fixture& fixture, std::vector<std::string> prompts)
      : f(fixture), texts(std::move(prompts)) {
    fake::settings().eos_share = 0;
    int64_t id = 0;
    for (const std::string& text : texts) {
      toy::submit(f.engine, Request(id++, toy::tokens(text), 5));
    }
  }
  void finish_and_check() {
    toy::run_all(f.engine);
    int64_t id = 0;
    for (const std::string& text : texts) {
      CHECK(f.text(id++) == fake::answer(toy::tokens(text), 5));
    }
  }

  Fixture& f;
  std::vector<std::string> texts;
};

}  // namespace

TEST_CASE("long prompts are fed in chunks beside decoding clients") {
  for (const bool unified : {true, false}) {
    Endless f(512, 4, unified);
    toy::submit(f.engine, Request(1, kHello, 40));
    toy::run(f.engine, 1);
    const std::vector<int32_t> prompt = toy::tokens(std::string(100, 'x'));
    toy::submit(f.engine, Request(2, prompt, 10));
    CHECK(f.engine.info().n_cells_pending == 100);
    const lh_stats before = f.engine.stats();
    toy::run(f.engine, 1);  // 32 tokens per batch; in a pool, one of them belongs to
                            // client 1
    CHECK(f.engine.stats().n_prefill == before.n_prefill + (unified ? 31 : 32));
    toy::run(f.engine, 3);
    CHECK(f.engine.stats().n_batches == before.n_batches + 4);
    CHECK(f.engine.get(1).n_generated == 5);
    CHECK(f.engine.get(2).n_generated == (unified ? 1 : 0));  // its last token waits
    toy::run_all(f.engine);
    CHECK(f.text(2) == fake::answer(prompt, 10));
  }
}

TEST_CASE("the last tokens of short prompts get their logits in one batch") {
  Endless f(512, 4, false);
  toy::submit(f.engine, Request(1, toy::tokens("a"), 5));
  toy::submit(f.engine, Request(2, toy::tokens("abc"), 5));
  toy::submit(f.engine, Request(3, toy::tokens("abcdef"), 5));
  const auto step = [&] {
    toy::run(f.engine, 1);
    const auto n = [&](int64_t id) { return f.engine.get(id).n_generated; };
    return std::vector<int32_t>{n(1), n(2), n(3)};
  };
  CHECK(step() == std::vector<int32_t>{1, 0, 0});
  CHECK(step() == std::vector<int32_t>{2, 1, 1});
  toy::run_all(f.engine);
  CHECK(f.text(3) == fake::answer(toy::tokens("abcdef"), 5));
  // A single prompt does not wait.
  toy::submit(f.engine, Request(4, kHello, 5));
  toy::run(f.engine, 1);
  CHECK(f.engine.get(4).n_generated == 1);
}

TEST_CASE("prompts of about the same length are one computation") {
  Fixture f(512, 4, false);
  ShortPrompts prompts(f, {"abcd", "abcdefg", "abcdef", "abcdefg"});
  toy::run(f.engine, 1);
  CHECK(fake::counts().n_computations == 1);
  CHECK(fake::counts().n_tokens == 4 * 6);
  CHECK(f.engine.stats().n_prefill == 3 + 6 + 5 + 6);
  CHECK(fake::n_cells_left() == 3 + 6 + 5 + 6);
  prompts.finish_and_check();
}

TEST_CASE(
    "new prompts are sorted, so that what is left of long ones is one computation") {
  Fixture f(512, 4, false);
  ShortPrompts prompts(f, {"ab", "abcdefghijkl", "cd", "cdefghijklmn"});
  toy::run(f.engine, 1);
  CHECK(fake::counts().n_computations == 2);
  CHECK(fake::counts().n_tokens == 1 + 11 + 1 + 11);  // ten padding tokens would cost
                                                      // more
  prompts.finish_and_check();
}

TEST_CASE("new prefixes are sorted, too") {
  Fixture f(512, 5, false);
  int64_t id = 0;
  for (const char* text : {"ab", "abcdefghijkl", "cd", "cdefghijklmn"}) {
    toy::submit(f.engine, Request(id++, toy::tokens(text), 0));
  }
  toy::run(f.engine, 1);
  CHECK(fake::counts().n_computations == 2);
  CHECK(f.engine.get(3).state == LH_STATE_HELD);
  const std::vector<int32_t> prompt = toy::tokens("cdefghijklmnop");
  toy::submit(f.engine, Request(id, prompt, 5).fork_from(3));
  toy::run_all(f.engine);
  CHECK(f.text(id) == fake::answer(prompt, 5));
}

TEST_CASE("new prompts whose answers may last longer come first") {
  Endless f(512, 3, false);
  std::vector<int32_t> order;
  record_order(order);
  for (int64_t id = 0; id < 3; ++id) {
    toy::submit(f.engine, Request(id, kHello, id == 0 ? 2 : 20));
  }
  toy::run(f.engine);  // until the first answer ends without a gap
  toy::run(f.engine, 1);
  CHECK(order == std::vector<int32_t>{0, 1});
}

TEST_CASE("nothing is padded where the cells, or the window of attention, end") {
  for (const int32_t n_swa : {0, 8}) {
    fake::reset();
    fake::settings().eos_share = 0;
    fake::settings().n_swa = n_swa;
    const auto model = toy::model();
    lh_engine engine(*model, toy::engine_params(n_swa > 0 ? 32 : 16, 2, false));
    toy::submit(engine, Request(1, toy::tokens("abcd"), 5));
    toy::run(engine, 4);  // seven cells are in use
    const int64_t n = fake::counts().n_tokens;
    toy::submit(engine, Request(2, toy::tokens("abcd"), 5));
    toy::run(engine, 1);
    CHECK(fake::counts().n_tokens == n + 1 + 3);
    toy::run_all(engine);
    CHECK(engine.stats().n_failed_decodes == 0);
    for (const int64_t id : {1, 2}) {
      CHECK(engine.get(id).text == fake::answer(toy::tokens("abcd"), 5));
    }
  }
}

TEST_CASE("only the first prompt of a batch is cut") {
  for (const bool unified : {true, false}) {
    Fixture f(512, 4, unified);
    const std::string text(20, 'x');
    toy::submit(f.engine, Request(1, toy::tokens(text), 5));
    toy::submit(f.engine, Request(2, toy::tokens(text), 5));
    toy::run(f.engine, 1);  // 32 tokens a batch
    CHECK(f.engine.stats().n_prefill == (unified ? 32 : 19));
    toy::run(f.engine, 1);
    CHECK(f.engine.stats().n_prefill == (unified ? 40 : 39));
    toy::run_all(f.engine);
    CHECK(f.text(1) == f.text(2));
  }
}

TEST_CASE("the largest n_batch is cut to the cells that there are") {
  fake::reset();
  const auto model = toy::model();
  lh_engine_params params = toy::engine_params(256, 4, false);
  params.n_batch = INT32_MAX;
  lh_engine engine(*model, params);
  CHECK(engine.info().n_batch == 256);
  toy::submit(engine, Request(1, kHello, 5));
  toy::run_all(engine);
  CHECK(std::string(engine.get(1).text) == fake::answer(kHello, 5));
}

TEST_CASE("a long part of a prompt is computed by itself") {
  Endless f(toy::engine_params(1024, 4, false, 256, 256));
  for (int64_t id = 0; id < 3; ++id) toy::submit(f.engine, Request(id, kHello, 20));
  toy::run(f.engine, 3);
  f.engine.release(1);
  toy::submit(f.engine, Request(1, toy::tokens(std::string(100, 'x')), 20));
  std::vector<int32_t> order;
  record_order(order);
  toy::run(f.engine, 1);
  CHECK(order == std::vector<int32_t>{2, 1, 0});  // no two ids are consecutive
  toy::run(f.engine, 1);
  CHECK(order == std::vector<int32_t>{0, 1, 2});
}

TEST_CASE("answers move into the places of those that ended") {
  Endless f(1024, 6, false);
  const auto prompt = [](int64_t id) {
    return toy::tokens(std::string(static_cast<size_t>(id) + 1, 'x'));
  };
  std::vector<int32_t> order;
  record_order(order);
  constexpr int32_t kMaxTokens[] = {60, 60, 60, 40, 60, 50};
  for (int64_t id = 0; id < 6; ++id) {
    toy::submit(f.engine, Request(id, prompt(id), kMaxTokens[id]));
  }
  toy::run(f.engine, 3);
  CHECK(order == std::vector<int32_t>{0, 1, 2, 3, 4, 5});
  f.engine.release(1);
  toy::run(f.engine, 1);
  CHECK(order == std::vector<int32_t>{0, 1, 2, 3, 4});
  f.engine.release(2);
  f.engine.pause(5);  // cells that were just copied can be saved
  f.engine.resume(5);
  toy::run(f.engine, 1);
  CHECK(order == std::vector<int32_t>{0, 1, 2, 3});
  toy::run_all(f.engine);
  for (const int64_t id : {0, 3, 4, 5}) {
    CHECK(f.text(id) == fake::answer(prompt(id), kMaxTokens[id]));
    CHECK(f.engine.get(id).n_generated == kMaxTokens[id]);
    f.engine.release(id);
  }
  CHECK(fake::n_cells_left() == 0);
}

TEST_CASE("an answer that cannot be copied stays where it is") {
  Endless f(512, 3, false);
  for (int64_t id = 0; id < 3; ++id) {
    toy::submit(f.engine, Request(id, kHello, 60));
  }
  toy::run(f.engine, 2);
  f.engine.release(0);
  fake::settings().fail_copy = fake::settings().fail_state = true;
  toy::run_all(f.engine);
  CHECK(f.text(2) == fake::answer(kHello, 60));
  CHECK(f.engine.info().n_seq_used == 0);
  f.engine.release(2);
  CHECK(fake::n_cells_left() == 0);
}

TEST_CASE("answers move only if they may go on long enough for their cells") {
  struct Case {
    size_t n_prompt;
    int32_t max_tokens;
    bool moves;
  };
  for (const Case& move :
       {Case{5, 5, false}, Case{5, 6, true}, Case{130, 6, false}, Case{130, 20, true}}) {
    INFO("prompt: ", move.n_prompt, " max_tokens: ", move.max_tokens);
    Endless f(toy::engine_params(2048, 3, false, 512));
    const std::vector<int32_t> prompt(move.n_prompt, 'x');
    std::vector<int32_t> order;
    record_order(order);
    for (int64_t id = 0; id < 3; ++id) {
      toy::submit(f.engine, Request(id, prompt, move.max_tokens));
    }
    while (f.engine.get(2).n_generated < 2) toy::run(f.engine, 1);
    f.engine.release(0);
    toy::run(f.engine, 1);
    CHECK(order ==
          (move.moves ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{1, 2}));
    toy::run_all(f.engine);
    CHECK(f.text(2) == fake::answer(prompt, move.max_tokens));
  }
}

TEST_CASE("a deterministic engine computes rows in multiples and keeps no padding") {
  Deterministic f(64, 11);
  const std::string texts[] = {
      "a", "four", "a longer prompt", std::string(40, 'x'), "b", "c", "d", "e", "f"};
  int64_t id = 0;
  for (const std::string& text : texts) {
    const auto n = static_cast<int32_t>(3 + 2 * id);
    toy::submit(f.engine, toy::Request(id++, toy::tokens(text), n));
  }
  toy::run_all(f.engine);
  for (id = 0; id < 9; ++id) {
    const auto n = static_cast<int32_t>(3 + 2 * id);
    CHECK(f.text(id) == fake::answer(toy::tokens(texts[id]), n));
    f.engine.release(id);
  }
  CHECK(fake::n_cells_left() == 0);
}

TEST_CASE("a prefix whose padding is not removed is not held") {
  Deterministic f(64, 4);
  for (const bool fails : {true, false}) {
    fake::settings().fail_cut = fails;
    toy::submit(f.engine, Request(100, kHello, 0));
    toy::run(f.engine);
    CHECK(f.engine.get(100).finish == (fails ? LH_FINISH_ERROR : LH_FINISH_NONE));
    if (fails) f.engine.release(100);
  }
  const std::vector<int32_t> prompt = toy::tokens("hello you");
  toy::submit(f.engine, Request(1, prompt, 5).fork_from(100));
  toy::run_all(f.engine);
  CHECK(f.text(1) == fake::answer(prompt, 5));
}

TEST_CASE("a deterministic engine keeps its rows where a group has one answer left") {
  Deterministic f(64, 16);
  for (int64_t id = 0; id < 16; ++id) {
    toy::submit(f.engine, toy::Request(id, kHello, id == 0 || id == 12 ? 20 : 3));
  }
  toy::run_all(f.engine);
  for (const int64_t id : {0, 12}) CHECK(f.text(id) == fake::answer(kHello, 20));
}

TEST_CASE("a deterministic engine refuses what would round by the batch's shape") {
  fake::reset();
  const auto model = toy::model();
  const auto refused = [&](auto change) {
    lh_engine_params params = toy::deterministic_params(64, 8);
    change(params);
    CHECK_THROWS_AS(lh_engine(*model, params), lh::Error);
  };
  refused([](lh_engine_params& p) { p.kv_unified = 1; });
  refused([](lh_engine_params& p) { p.flash_attn = -1; });
  refused([](lh_engine_params& p) { p.type_v = -1; });
  refused([](lh_engine_params& p) { p.type_v = GGML_TYPE_F32; });
  refused([](lh_engine_params& p) { p.n_seq_max = 9; });
  refused([](lh_engine_params& p) { p.n_ubatch = 4; });
  fake::settings().recurrent = true;
  refused([](lh_engine_params&) {});
}
