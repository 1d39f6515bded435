// Tests sequence ids and positions.
#include <doctest/doctest.h>

#include "guard.hpp"
#include "sequences.hpp"
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

TEST_CASE("positions: get, advance, set, has, rewind, verify, clear") {
  fake::reset();
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 16;
  params.n_seq_max = 2;
  params.kv_unified = true;
  llama_context* ctx = llama_init_from_model(nullptr, params);
  lh::Positions positions(llama_get_memory(ctx), 2);
  CHECK_FALSE(positions.has(0));
  CHECK(positions.get(0) == 0);
  positions.verify(0);
  positions.advance(0, 3);
  CHECK(positions.has(0));
  CHECK(positions.get(0) == 3);
  CHECK_THROWS_WITH_AS(positions.verify(0),
                       "sequence 0 is recorded at position 3, but the KV cache ends at 0",
                       lh::Error);
  CHECK(positions.rewind(0));
  positions.set(0, 0);
  positions.verify(0);
  positions.clear(0);
  CHECK_FALSE(positions.has(0));
  CHECK(positions.rewind(1));
  CHECK_THROWS_AS(positions.get(2), std::out_of_range);
  llama_free(ctx);
}

TEST_CASE("clients get the lowest free sequence id, prefixes the highest") {
  fake::reset();
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 16;
  params.n_seq_max = 3;
  llama_context* ctx = llama_init_from_model(nullptr, params);
  lh::Positions positions(llama_get_memory(ctx), 3);
  lh::SequencePool pool(positions, 3);
  CHECK(pool.acquire() == 0);
  CHECK(pool.acquire() == 1);
  CHECK(pool.acquire_last() == 2);
  CHECK(pool.acquire() == -1);
  CHECK(pool.acquire_last() == -1);
  pool.release(1);
  pool.release(1);  // a second release has no effect
  CHECK(pool.n_used() == 2);
  CHECK(pool.acquire() == 1);
  llama_free(ctx);
}
