// Tests the replacement of the llama_context while requests are paused.
#include <doctest/doctest.h>

#include <functional>

#include "engine_fixture.hpp"
#include "guard.hpp"

using toy::Request;

namespace {

// Creates a request that has ended, and a request that is paused partway.
void prepare(lh_engine& engine) {
  fake::settings().eos_share = 0;
  toy::submit(engine, Request(1, kHello, 5));
  toy::submit(engine, Request(2, toy::tokens("paused"), 40));
  toy::run_all(engine);
  engine.release(2);
  toy::submit(engine, Request(2, toy::tokens("paused"), 40));
  toy::run(engine, 10);
  engine.pause(2);
}

void check_answers(Fixture& f) {
  CHECK(f.text(1) == fake::answer(kHello, 5));
  f.engine.resume(2);
  toy::run_all(f.engine);
  CHECK(f.text(2) == fake::answer(toy::tokens("paused"), 40));
  CHECK(f.engine.info().n_cells_used == 0);
  CHECK(fake::n_cells_left() == 0);
}

struct Change {
  const char* what;
  bool unified;
  std::function<void(lh_engine_params&)> change;
  bool keeps;  // the saved state can be used
};

}  // namespace

TEST_CASE("paused and ended requests stay when the KV cache is resized") {
  using P = lh_engine_params;
  const std::vector<Change> changes = {
      {"nothing", true, [](P&) {}, true},
      {"n_ctx", true, [](P& p) { p.n_ctx = 512; }, true},
      {"n_seq_max", true, [](P& p) { p.n_seq_max = 9; }, true},
      {"smaller", true, [](P& p) { p.n_ctx = 64, p.n_seq_max = 1; }, true},
      {"n_batch", true, [](P& p) { p.n_batch = 64; }, true},
      {"threads", true, [](P& p) { p.n_threads = 2; }, true},
      {"to streams", true, [](P& p) { p.kv_unified = 0; }, false},
      {"type_k", true, [](P& p) { p.type_k = 8; }, false},
      {"flash_attn", true, [](P& p) { p.flash_attn = 1; }, false},
      {"rope", true, [](P& p) { p.rope_freq_base = 1e6F; }, false},
      {"n_ctx of streams", false, [](P& p) { p.n_ctx = 512; }, true},
      {"number of streams", false, [](P& p) { p.n_ctx = 512, p.n_seq_max = 8; }, false},
      {"to a pool", false, [](P& p) { p.kv_unified = 1; }, false},
  };
  for (const Change& change : changes) {
    CAPTURE(change.what);
    Fixture f(256, 4, change.unified);
    prepare(f.engine);
    const int32_t n_cells = f.engine.get(2).n_cells;
    CHECK(n_cells == 15);
    lh_engine_params params = toy::engine_params(256, 4, change.unified);
    change.change(params);
    f.engine.resize(params);
    const lh_engine_info info = f.engine.info();
    CHECK(info.n_ctx == params.n_ctx);
    CHECK(info.n_seq_max == params.n_seq_max);
    CHECK(info.kv_unified == params.kv_unified);
    CHECK(info.n_batch == params.n_batch);
    CHECK(info.n_seq_used == 0);
    CHECK(f.engine.get(2).n_cells == (change.keeps ? n_cells : 0));
    const int64_t n_prefill = f.engine.stats().n_prefill;
    check_answers(f);
    CHECK((f.engine.stats().n_prefill == n_prefill) == change.keeps);
  }
}

TEST_CASE("states of a model with long and short factors stay on their side") {
  for (const int32_t n_ctx_orig : {0, 300, 200, 512}) {
    Fixture f;
    fake::settings().n_ctx_orig = n_ctx_orig;
    f.engine.resize(toy::engine_params(256, 4, true));
    prepare(f.engine);
    f.engine.resize(toy::engine_params(512, 4, true));
    CHECK((f.engine.get(2).n_cells == 0) == (n_ctx_orig == 300));
    check_answers(f);
  }
}

TEST_CASE("what runs is in the way of a resize") {
  Endless f;
  toy::submit(f.engine, Request(100, kHello, 0));
  toy::run(f.engine);
  toy::submit(f.engine, Request(1, toy::tokens("hello you"), 20).fork_from(100));
  toy::submit(f.engine, Request(2, kHello, 20));
  toy::run(f.engine, 3);
  const lh_engine_params larger = toy::engine_params(512, 4, true);
  CHECK_THROWS_WITH_AS(f.engine.resize(larger),
                       "a resize needs all requests to be paused or to have ended; 2 are "
                       "running",
                       lh::Error);
  f.engine.pause(1);
  f.engine.end(2, LH_FINISH_CANCELLED, nullptr);
  lh_engine_params bad = larger;
  bad.n_seq_max = 0;
  CHECK(code_of([&] { f.engine.resize(bad); }) == LH_INVALID_ARGUMENT);
  CHECK(f.engine.info().n_ctx == 256);
  f.engine.resize(larger);
  CHECK(f.engine.info().n_ctx == 512);
  f.engine.resume(1);
  toy::run_all(f.engine);
  CHECK(f.text(1) == fake::answer(toy::tokens("hello you"), 20));
  CHECK(f.text(2) == fake::answer(kHello, 3));
}

TEST_CASE("a resize for which there is no memory leaves the sizes as they were") {
  Fixture f;
  prepare(f.engine);
  fake::settings().n_bad_contexts = 1;
  CHECK(code_of([&] { f.engine.resize(toy::engine_params(512, 8, false)); }) ==
        LH_CONTEXT_ERROR);
  CHECK(f.engine.info().n_ctx == 256);
  CHECK(f.engine.info().kv_unified == 1);
  CHECK(f.engine.get(2).n_cells == 15);
  check_answers(f);
}

TEST_CASE("without memory even for the old context nothing is lost but what was paused") {
  Fixture f;
  prepare(f.engine);
  const lh_stats before = f.engine.stats();
  const lh_engine_params larger = toy::engine_params(512, 8, true);
  fake::settings().n_bad_contexts = 2;
  CHECK(code_of([&] { f.engine.resize(larger); }) == LH_CONTEXT_ERROR);
  CHECK(f.text(1) == fake::answer(kHello, 5));
  const lh_client_info lost = f.engine.get(2);
  CHECK(lost.state == LH_STATE_FAILED);
  CHECK(
      std::string(lost.message).find("no llama_context since it could not be resized") !=
      std::string::npos);
  CHECK(std::string(lost.text) == fake::answer(toy::tokens("paused"), 10));
  CHECK(f.engine.read(2, 0, 0).n_tokens == 10);
  const std::function<void()> calls[] = {
      [&] { toy::submit(f.engine, Request(3, kHello, 5)); },
      [&] { toy::run(f.engine); },
      [&] { f.engine.pause(2); },
      [&] { f.engine.resume(2); },
      [&] { f.engine.info(); },
      [&] { f.engine.reset(); },
      [&] { f.engine.seq_pos_max(0); },
  };
  for (const auto& call : calls) CHECK(code_of(call) == LH_CONTEXT_ERROR);
  fake::settings().n_bad_contexts = 1;
  CHECK(code_of([&] { f.engine.resize(larger); }) == LH_CONTEXT_ERROR);
  f.engine.end(1, LH_FINISH_CANCELLED, nullptr);
  f.engine.abort(false);
  f.engine.wake();
  f.engine.release(2);
  CHECK(f.engine.stats().n_generated == before.n_generated);
  f.engine.forget_call(0);
  // Memory is available again.
  f.engine.resize(larger);
  CHECK(f.engine.info().n_ctx == 512);
  toy::submit(f.engine, Request(3, kHello, 5));
  toy::run_all(f.engine);
  CHECK(f.text(3) == fake::answer(kHello, 5));
}

TEST_CASE("an engine that lost its context can be freed") {
  Fixture f;
  prepare(f.engine);
  fake::settings().n_bad_contexts = 2;
  CHECK_THROWS_AS(f.engine.resize(toy::engine_params(512, 8, true)), lh::Error);
}

TEST_CASE("an abort lasts through a resize") {
  Fixture f;
  prepare(f.engine);
  f.engine.abort(true);
  f.engine.resize(toy::engine_params(512, 4, true));
  f.engine.resume(2);
  CHECK(toy::run(f.engine).status == LH_ABORTED);
  f.engine.abort(false);
  toy::run_all(f.engine);
  CHECK(f.text(2) == fake::answer(toy::tokens("paused"), 40));
}

TEST_CASE("resizes at any time, paused by the way, change no answer") {
  for (const bool recurrent : {false, true}) {
    Fixture f(512, 4, false, recurrent);
    fake::settings().eos_share = 0.01;
    for (int64_t id = 0; id < 3; ++id) {
      toy::submit(
          f.engine,
          Request(id, toy::tokens("prompt " + std::to_string(id)), 60).may_draft());
    }
    int32_t round = 0;
    while (toy::run(f.engine, 4).result.n_active > 0) {
      std::vector<int64_t> paused;
      for (int64_t id = 0; id < 3; ++id) {
        if (f.engine.get(id).state > LH_STATE_DECODE) continue;
        f.engine.pause(id);
        paused.push_back(id);
      }
      ++round;
      f.engine.resize(
          toy::engine_params(512 + 128 * (round % 3), 3 + round % 2, round % 4 == 0));
      for (const int64_t id : paused) f.engine.resume(id);
    }
    for (int64_t id = 0; id < 3; ++id) {
      CHECK(f.text(id) == fake::answer(toy::tokens("prompt " + std::to_string(id)), 60));
    }
  }
}
