// Tests of cells that are copied, paused and restored, on the toy model.
#include <doctest/doctest.h>

#include "engine_fixture.hpp"
#include "guard.hpp"

using toy::Request;

namespace {

// For sequences of 32 cells: a nearly full sequence is copied with the next decode. Any
// other sequence is copied at once, as a state.
const std::vector<int32_t> kFull = toy::tokens("all of a whole codebook");
const std::vector<int32_t> kShort = toy::tokens("cut");

void hold(lh_engine& engine, int64_t id, const std::vector<int32_t>& prefix) {
  toy::submit(engine, Request(id, prefix, 0));
  toy::run(engine);
}

}  // namespace

TEST_CASE("pause saves the cells and resume brings them back") {
  for (const bool fail_state : {false, true}) {
    Endless f;
    fake::settings().fail_state = fail_state;  // the whole sequence is then computed
                                               // again
    toy::submit(f.engine, Request(1, kHello, 20));
    toy::run(f.engine, 5);
    f.engine.pause(1);
    CHECK(f.engine.get(1).state == LH_STATE_PAUSED);
    CHECK(f.engine.get(1).n_cells == (fail_state ? 0 : 9));
    CHECK(fake::n_cells_left() == 0);
    CHECK(f.engine.info().n_seq_used == 0);
    CHECK(toy::run(f.engine).result.n_active == 0);
    const int64_t n_tokens = fake::counts().n_tokens;
    f.engine.resume(1);
    toy::run_all(f.engine);
    CHECK(f.text(1) == fake::answer(kHello, 20));
    CHECK(fake::counts().n_tokens - n_tokens == (fail_state ? 24 : 15));
    CHECK(f.engine.stats().n_pauses == 1);
    CHECK_THROWS_AS(f.engine.pause(1), lh::Error);
    CHECK_THROWS_AS(f.engine.resume(1), lh::Error);
  }
}

TEST_CASE("a sequence that is mostly empty is copied at once, unless that fails") {
  for (const bool fail_state : {false, true}) {
    Endless f(128, 4, false);
    fake::settings().fail_state = fail_state;
    hold(f.engine, 100, kShort);
    toy::submit(f.engine, Request(1, kShort + "!", 12).fork_from(100));
    f.engine.pause(1);
    CHECK(f.engine.get(1).n_cells == (fail_state ? 0 : 3));
    f.engine.release(100);
    f.engine.resume(1);
    toy::run_all(f.engine);
    CHECK(f.text(1) == fake::answer(kShort + "!", 12));
  }
}

TEST_CASE("copies of a prefix read it once, and anew when it is another one's turn") {
  Endless f(160, 5, false);
  const auto other = toy::tokens("one");
  hold(f.engine, 100, kShort);
  hold(f.engine, 101, other);
  const auto fork = [&](int64_t id, const std::vector<int32_t>& prefix, int64_t of) {
    const int64_t n_states = fake::counts().n_states;
    toy::submit(f.engine, Request(id, prefix + "!", 12).fork_from(of));
    return fake::counts().n_states - n_states;
  };
  CHECK(fork(1, kShort, 100) == 1);
  CHECK(fork(2, kShort, 100) == 0);
  CHECK(fork(3, other, 101) == 1);
  toy::run_all(f.engine);
  for (const int64_t id : {1, 2}) CHECK(f.text(id) == fake::answer(kShort + "!", 12));
  CHECK(f.text(3) == fake::answer(other + "!", 12));
  // Creates another prefix in the sequence of the first prefix.
  for (const int64_t id : {1, 2, 3}) f.engine.release(id);
  CHECK(fork(1, kShort, 100) == 1);
  f.engine.release(100);
  hold(f.engine, 100, toy::tokens("cat"));
  CHECK(fork(2, toy::tokens("cat"), 100) == 1);
  toy::run_all(f.engine);
  CHECK(f.text(2) == fake::answer(toy::tokens("cat!"), 12));
}

TEST_CASE("a client paused before a copy between streams ran loses nothing") {
  Endless f(128, 4, false);
  hold(f.engine, 100, kFull);
  toy::submit(f.engine, Request(1, kFull + "!", 8).fork_from(100));
  f.engine.pause(1);
  CHECK(f.engine.get(1).n_cells == 0);
  f.engine.release(100);
  f.engine.resume(1);
  toy::run_all(f.engine);
  CHECK(f.text(1) == fake::answer(kFull + "!", 8));
}

TEST_CASE("what comes back does not go where a copy has yet to be made from") {
  Endless f(64, 2, false);
  toy::submit(f.engine, Request(2, kHello, 12));
  toy::run(f.engine, 3);
  f.engine.pause(2);
  hold(f.engine, 100, kFull);
  toy::submit(f.engine, Request(1, kFull + "!", 8).fork_from(100));
  f.engine.release(100);
  f.engine.resume(2);  // to the sequence of the prefix
  toy::run_all(f.engine);
  CHECK(f.text(1) == fake::answer(kFull + "!", 8));
  CHECK(f.text(2) == fake::answer(kHello, 12));
}

TEST_CASE("a state is not copied to where another copy has yet to be made from") {
  Endless f(96, 3, false);
  hold(f.engine, 100, kFull);
  hold(f.engine, 101, kShort);
  toy::submit(f.engine, Request(1, kFull + "!", 8).fork_from(100));
  f.engine.release(100);
  toy::submit(f.engine, Request(2, kShort + "?", 12).fork_from(101));
  toy::run_all(f.engine);
  CHECK(f.text(1) == fake::answer(kFull + "!", 8));
  CHECK(f.text(2) == fake::answer(kShort + "?", 12));
}

TEST_CASE("resume without room says so and changes nothing") {
  Endless f(16, 4);
  toy::submit(f.engine, Request(1, kHello, 5));
  toy::run(f.engine, 3);
  f.engine.pause(1);
  toy::submit(f.engine, Request(2, toy::tokens("0123456789"), 2));
  toy::run(f.engine, 1);
  CHECK_THROWS_AS(f.engine.resume(1), lh::Error);
  CHECK(f.engine.info().n_seq_used == 1);
  toy::run_all(f.engine);
  f.engine.resume(1);
  toy::run_all(f.engine);
  CHECK(f.text(1) == fake::answer(kHello, 5));
}

TEST_CASE("an answer that was paused without its cells comes back as a prompt") {
  Deterministic f(64, 4);
  fake::settings().fail_state = true;
  toy::submit(f.engine, Request(1, kHello, 10));
  toy::submit(f.engine, Request(2, toy::tokens("two"), 10));
  toy::run(f.engine, 4);
  f.engine.pause(1);
  f.engine.resume(1);
  CHECK(f.engine.get(1).state == LH_STATE_PREFILL);
  toy::run_all(f.engine);
  CHECK(f.text(1) == fake::answer(kHello, 10));
  CHECK(f.text(2) == fake::answer(toy::tokens("two"), 10));
}

TEST_CASE("an answer that is paused again while it is computed again keeps its shape") {
  lh_engine_params params = toy::deterministic_params(64, 8);
  params.n_batch = params.n_ubatch = 16;
  Deterministic f(params);
  fake::settings().fail_state = true;
  toy::submit(f.engine, Request(1, toy::tokens("hello"), 30));
  toy::run(f.engine, 20);
  const int64_t n_before = f.engine.get(1).n_generated;
  REQUIRE(n_before == 20);  // 24 tokens were decoded
  for (int32_t i = 0; i < 2; ++i) {
    f.engine.pause(1);
    f.engine.resume(1);
    toy::run(f.engine, 1);  // 16 of these tokens again
  }
  CHECK(f.engine.get(1).n_generated == n_before);
  toy::run(f.engine, 1);  // the other 8 tokens, without logits
  CHECK(f.engine.get(1).n_generated == n_before);
  toy::run(f.engine, 1);  // the token that was drawn last, in a group of eight
  CHECK(f.engine.get(1).n_generated == n_before + 1);
  toy::run_all(f.engine);
  CHECK(f.text(1) == fake::answer(toy::tokens("hello"), 30));
}
