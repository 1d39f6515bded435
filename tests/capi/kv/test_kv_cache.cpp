// Tests of KV cells on the toy: sequence ids, positions, counting, copies, saved states.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "fake_llama.hpp"
#include "guard.hpp"
#include "kv_cache.hpp"
#include "positions.hpp"
#include "toy.hpp"

TEST_CASE("an id that comes back has lost its cells, whatever the records say") {
  fake::reset();
  const auto model = toy::model();
  lh_engine engine(*model, toy::engine_params(64, 2, true));
  toy::submit(engine, toy::Request(1, toy::tokens("abc"), 1));
  toy::run_all(engine);
  CHECK(fake::n_cells_left() == 0);
  CHECK(engine.seq_pos_max(0) == -1);
  CHECK_THROWS_AS(engine.seq_pos_max(2), lh::Error);
}

namespace {

// Three sequences of 32 cells, or a pool of 96.
struct Cells {
  explicit Cells(bool unified)
      : ctx((fake::reset(), make(unified)), llama_free),
        kv(ctx.get(), {3, unified, !unified, !unified}) {}
  ~Cells() { CHECK(fake::counts().n_violations == 0); }

  static llama_context* make(bool unified) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 96;
    params.n_seq_max = 3;
    params.n_batch = 96;
    params.kv_unified = unified;
    return llama_init_from_model(nullptr, params);
  }

  // Decodes n further tokens of a sequence.
  void decode(int32_t seq_id, int32_t n) {
    llama_batch batch = llama_batch_init(n, 0, 1);
    for (int32_t i = 0; i < n; ++i) {
      batch.token[i] = 'a' + i;
      batch.pos[i] = kv.positions().get(seq_id) + i;
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = seq_id;
      batch.logits[i] = 0;
    }
    batch.n_tokens = n;
    kv.before_decode();
    CHECK(llama_decode(ctx.get(), batch) == 0);
    kv.after_decode();
    kv.advance(seq_id, n);
    kv.verify(seq_id);
    llama_batch_free(batch);
  }

  // Decodes a prefix of 6 tokens, which others may share. Returns its sequence id.
  int32_t share_prefix() {
    const int32_t prefix = kv.acquire(true);
    decode(prefix, 6);
    kv.share(prefix);
    return prefix;
  }

  std::unique_ptr<llama_context, void (*)(llama_context*)> ctx;
  lh::KvCache kv;
};

}  // namespace

TEST_CASE("positions: get, advance, set, has, rewind, verify, clear") {
  lh::Positions positions(2);
  CHECK_FALSE(positions.has(0));
  CHECK(positions.get(0) == 0);
  positions.set(0, 0);
  CHECK(positions.has(0));
  positions.forget(0);
  CHECK_FALSE(positions.has(0));
  CHECK_THROWS_AS(positions.get(2), std::out_of_range);

  Cells c(true);
  c.kv.verify(0);
  c.kv.advance(0, 3);
  CHECK(c.kv.positions().get(0) == 3);
  CHECK_THROWS_WITH_AS(c.kv.verify(0),
                       "sequence 0 is recorded at position 3, but the KV cache ends at 0",
                       lh::Error);
  CHECK(c.kv.rewind(0));
  c.kv.clear(0);
  c.kv.verify(0);
  CHECK_FALSE(c.kv.positions().has(0));
  CHECK(c.kv.rewind(1));
}

TEST_CASE("clients get the lowest free sequence id, prefixes the highest") {
  Cells c(true);
  CHECK(c.kv.acquire(false) == 0);
  CHECK(c.kv.acquire(false) == 1);
  CHECK(c.kv.acquire(true) == 2);
  for (const bool is_prefix : {false, true}) {
    CHECK_THROWS_AS(c.kv.acquire(is_prefix), lh::Error);
  }
  c.kv.release(1);
  c.kv.release(1);  // a second release has no effect
  CHECK(c.kv.n_seq_used() == 2);
  CHECK(c.kv.acquire(false) == 1);
}

TEST_CASE("ids run out, and come back without cells") {
  Cells c(true);
  CHECK(c.kv.acquire(false) == 0);
  CHECK(c.kv.acquire(true) == 2);
  CHECK(c.kv.acquire(false) == 1);
  CHECK_THROWS_WITH_AS(c.kv.acquire(false), "all 3 sequence ids are in use", lh::Error);
  c.decode(0, 5);
  CHECK(c.kv.n_cells_used() == 5);
  c.kv.release(0);
  CHECK(c.kv.n_cells_used() == 0);
  CHECK(c.kv.n_seq_used() == 2);
  CHECK(fake::n_cells_left() == 0);
}

TEST_CASE("in a pool forks share cells, which count once and until the last has ended") {
  Cells c(true);
  const int32_t prefix = c.share_prefix();
  CHECK(c.kv.n_own_cells(prefix) == 0);
  for (const int32_t id : {c.kv.acquire(false), c.kv.acquire(false)}) {
    CHECK(c.kv.fork(prefix, id) == 6);
    c.decode(id, 2);
    CHECK(c.kv.n_own_cells(id) == 2);
  }
  CHECK(c.kv.n_cells_used() == 6 + 2 + 2);
  c.kv.release(prefix);
  c.kv.release(0);
  CHECK(c.kv.n_cells_used() == 6 + 2);
  c.kv.release(1);
  CHECK(c.kv.n_cells_used() == 0);
}

TEST_CASE("cells that a sequence shares are counted while others have them") {
  Cells c(true);
  const int32_t prefix = c.share_prefix();
  const int32_t id = c.kv.acquire(false);
  c.kv.fork(prefix, id);
  c.decode(id, 2);
  CHECK(c.kv.roll_back(id, 5));
  CHECK(c.kv.n_own_cells(id) == 0);
  CHECK(c.kv.n_cells_used() == 6);
  c.decode(id, 1);
  CHECK(c.kv.n_cells_used() == 7);
}

TEST_CASE("with streams each fork has its own cells") {
  Cells c(false);
  const int32_t prefix = c.share_prefix();
  const int32_t id = c.kv.acquire(false);
  CHECK(c.kv.fork(prefix, id) == 6);
  c.decode(id, 1);
  CHECK(c.kv.n_own_cells(prefix) == 6);
  CHECK(c.kv.n_own_cells(id) == 7);
  CHECK(c.kv.n_cells_used() == 13);
}

TEST_CASE("a sequence moves to the lowest id that is free, with its cells") {
  Cells c(false);
  for (int32_t i = 0; i < 3; ++i) c.decode(c.kv.acquire(false), 3 + i);
  CHECK(c.kv.move_down(2) == -1);
  c.kv.release(0);
  fake::settings().fail_copy = fake::settings().fail_state = true;
  CHECK(c.kv.move_down(2) == -1);
  CHECK(c.kv.n_own_cells(2) == 5);
  fake::settings().fail_copy = fake::settings().fail_state = false;
  CHECK(c.kv.move_down(2) == 0);
  CHECK(c.kv.n_own_cells(0) == 5);
  CHECK(c.kv.n_cells_used() == 4 + 5);
  c.decode(0, 1);
  CHECK(c.kv.move_down(1) == -1);  // the free sequence is above
}

TEST_CASE("a move copies cells as a state, however many there are") {
  Cells c(false);
  for (int32_t i = 0; i < 2; ++i) c.decode(c.kv.acquire(false), 25);  // of 32
  c.kv.release(0);
  fake::settings().fail_copy = true;
  CHECK(c.kv.move_down(1) == 0);
  CHECK(c.kv.n_own_cells(0) == 25);
  CHECK_FALSE(c.kv.has_pending_copies());
}

TEST_CASE("a sequence that was cut is not copied as it was") {
  Cells c(false);
  c.kv.acquire(false);
  c.kv.acquire(false);
  c.decode(1, 6);
  c.kv.fork(1, c.kv.acquire(true));
  c.kv.release(0);
  CHECK(c.kv.roll_back(1, 3));
  CHECK(c.kv.move_down(1) == 0);
  c.kv.verify(0);
}

TEST_CASE("saved cells come back, also to another sequence") {
  Cells c(true);
  c.decode(c.kv.acquire(false), 4);
  std::vector<uint8_t> state;
  CHECK(c.kv.save(0, state));
  c.kv.release(0);
  CHECK(c.kv.restore(state, 4, c.kv.acquire(true)));
  CHECK(c.kv.n_own_cells(2) == 4);
  c.decode(2, 1);
  CHECK_FALSE(c.kv.restore({}, 4, c.kv.acquire(false)));
  CHECK(c.kv.n_cells_used() == 5);
}

TEST_CASE("nothing is saved while a copy between streams is pending") {
  Cells c(false);
  c.decode(c.kv.acquire(false), 30);  // enough cells that the whole stream is copied
  c.kv.fork(0, c.kv.acquire(false));
  CHECK(c.kv.has_pending_copies());
  std::vector<uint8_t> state;
  CHECK_FALSE(c.kv.save(0, state));
  c.decode(1, 1);
  CHECK_FALSE(c.kv.has_pending_copies());
  CHECK(c.kv.save(0, state));
}

TEST_CASE("what is lost is not counted") {
  Cells c(true);
  const int32_t prefix = c.share_prefix();
  c.kv.fork(prefix, c.kv.acquire(false));
  c.decode(0, 2);
  c.kv.lose_all();
  CHECK(c.kv.n_cells_used() == 0);
  CHECK(c.kv.n_seq_used() == 2);
  CHECK(c.kv.fork(prefix, 0) == 0);
  CHECK(fake::n_cells_left() == 0);
}
