// Tests of batches that are refused, stopped partway, or compute no finite numbers.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <thread>

#include "engine_fixture.hpp"
#include "malloc.hpp"
#include "memory.hpp"

#if defined(__linux__)
#include <sys/resource.h>
#include <unistd.h>
#endif

using fake::Fault;
using toy::Request;

namespace {

// Returns when another thread is inside a decode that began after the first `n_before`.
void wait_for_decode(int64_t n_before) {
  while (fake::counts().n_begun == n_before) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

TEST_CASE("a refused batch changes nothing, whatever llama_decode left behind") {
  for (const bool recurrent : {false, true}) {
    for (const Fault fault :
         {Fault::kNoSlot, Fault::kInvalid, Fault::kFatal, Fault::kThrow}) {
      Endless f(256, 4, true, recurrent);
      fake::settings().fault = [&](int64_t n, const std::vector<int32_t>&) {
        return n == 3 || n == 4 ? fault : Fault::kNone;
      };
      toy::submit(f.engine, Request(1, kHello, 10));
      toy::submit(f.engine, Request(2, toy::tokens("two"), 10));
      toy::run(f.engine, 2);
      for (int attempt = 0; attempt < 2; ++attempt) {
        const toy::Ran ran = toy::run(f.engine);
        CHECK(ran.status == LH_DECODE_ERROR);
        CHECK(ran.result.decode_code != 0);
        CHECK(ran.result.n_active == 2);
        CHECK(ran.message.find("llama_decode returned") == 0);
      }
      toy::run_all(f.engine);
      CHECK(f.text(1) == fake::answer(kHello, 10));
      CHECK(f.text(2) == fake::answer(toy::tokens("two"), 10));
      CHECK(f.engine.stats().n_failed_decodes == 2);
      const bool was_begun = fault == Fault::kFatal || fault == Fault::kThrow;
      CHECK(f.engine.stats().n_lost == (recurrent && was_begun ? 2 : 0));
      CHECK(f.engine.info().n_cells_used == 0);
      CHECK(fake::n_cells_left() == 0);
    }
  }
}

TEST_CASE("a batch stopped halfway costs all recurrent states and no answer") {
  Fixture f(256, 4, true, true);
  lh_engine& engine = f.engine;
  fake::settings().eos_share = 0;
  const auto hello = [](const char* rest) {
    return toy::tokens(std::string("hello") + rest);
  };
  toy::submit(engine, Request(100, kHello, 0));
  toy::run(engine);
  toy::submit(engine, Request(1, hello("1"), 10).fork_from(100));
  toy::submit(engine, Request(2, toy::tokens("two"), 10));
  CHECK(engine.get(1).n_reused == 5);
  toy::run(engine, 2);
  fake::settings().decode_ms = 3'600'000;
  std::thread stop([&, n_before = fake::counts().n_begun.load()] {
    wait_for_decode(n_before);
    engine.abort(true);
  });
  CHECK(toy::run(engine).status == LH_ABORTED);
  stop.join();
  engine.abort(false);
  fake::settings().decode_ms = 0;
  CHECK(engine.stats().n_lost == 1);
  CHECK(engine.info().n_cells_used == 0);
  CHECK(fake::n_cells_left() == 0);
  // The prefix still exists, but it has no cells to fork.
  toy::submit(engine, Request(3, hello("3"), 10).fork_from(100));
  CHECK(engine.get(3).n_reused == 0);
  toy::run_all(engine);
  CHECK(f.text(1) == fake::answer(hello("1"), 10));
  CHECK(f.text(2) == fake::answer(toy::tokens("two"), 10));
  CHECK(f.text(3) == fake::answer(hello("3"), 10));
}

TEST_CASE("a step goes beyond where states were lost, so that who is guilty shows") {
  Endless f(256, 4, true, true);
  const std::vector<int32_t> prompt(80, 'x');  // three batches
  toy::submit(f.engine, Request(1, prompt, 10));
  toy::submit(f.engine, Request(2, kHello, 10));
  const std::vector<int64_t> first = {1};
  toy::run(f.engine, 2, &first);
  const auto strike = [](Fault fault) {
    fake::settings().fault = [fault](int64_t, const std::vector<int32_t>& seq_ids) {
      const bool is_hit = std::count(seq_ids.begin(), seq_ids.end(), 0) != 0;
      return is_hit ? fault : Fault::kNone;
    };
  };
  strike(Fault::kFatal);
  CHECK(toy::run(f.engine, 1).status == LH_DECODE_ERROR);
  strike(Fault::kNone);
  const std::vector<int64_t> second = {2};
  const toy::Ran again = toy::run(f.engine, 1, &first);
  CHECK(again.status == LH_OK);
  CHECK(again.result.n_steps == 3);  // the first two steps compute lost tokens again
  CHECK(toy::run(f.engine, 1, &second).status == LH_OK);
  strike(Fault::kFatal);
  CHECK(toy::run(f.engine, 1, &first).status == LH_DECODE_ERROR);
  f.engine.end(1, LH_FINISH_ERROR, "guilty");
  toy::run_all(f.engine);
  CHECK(f.text(2) == fake::answer(kHello, 10));
}

TEST_CASE("a token outside the vocabulary refuses the batch, not the process") {
  Fixture f;
  toy::submit(f.engine, Request(1, {1, 2, fake::kVocab}, 5));
  toy::submit(f.engine, Request(2, kHello, 5));
  CHECK(toy::run(f.engine).status == LH_DECODE_ERROR);
  const std::vector<int64_t> healthy = {2};
  CHECK(toy::run(f.engine, 1, &healthy).status == LH_OK);
  f.engine.end(1, LH_FINISH_ERROR, "token outside the vocabulary");
  toy::run_all(f.engine);
  CHECK(f.engine.get(1).state == LH_STATE_FAILED);
  CHECK(f.engine.get(1).code == LH_OK);  // not an error that the engine found
  CHECK(std::string(f.engine.get(1).message) == "token outside the vocabulary");
  CHECK(f.text(2) == fake::answer(kHello, 5));
}

TEST_CASE("logits that are no numbers or missing fail their client only") {
  for (const Fault fault : {Fault::kNan, Fault::kNull}) {
    Fixture f;
    fake::settings().fault = [&](int64_t n, const std::vector<int32_t>&) {
      return n == 1 ? fault : Fault::kNone;
    };
    toy::submit(f.engine, Request(1, kHello, 5));
    CHECK(toy::run(f.engine).events == std::vector<int64_t>{1});
    CHECK(f.engine.get(1).state == LH_STATE_FAILED);
    CHECK(f.engine.get(1).code == LH_DECODE_ERROR);
    CHECK(std::string(f.engine.get(1).message).find("logits") != std::string::npos);
    toy::submit(f.engine, Request(2, kHello, 5));
    toy::run_all(f.engine);
    CHECK(f.text(2) == fake::answer(kHello, 5));
  }
}

TEST_CASE("abort ends a run inside a decode; afterwards it goes on where it was") {
  Endless f;
  toy::submit(f.engine, Request(1, kHello, 10));
  toy::run(f.engine, 3);
  fake::settings().decode_ms = 3'600'000;
  std::thread aborter([&, n_before = fake::counts().n_begun.load()] {
    wait_for_decode(n_before);
    f.engine.abort(true);
  });
  CHECK(toy::run(f.engine).status == LH_ABORTED);
  aborter.join();
  CHECK(toy::run(f.engine).status == LH_ABORTED);
  fake::settings().decode_ms = 0;
  f.engine.abort(false);
  toy::run_all(f.engine);
  CHECK(f.text(1) == fake::answer(kHello, 10));
}

TEST_CASE("an abort that nobody asked for is a failed decode") {
  Endless f;
  toy::submit(f.engine, Request(1, kHello, 10));
  fake::settings().fault = [](int64_t, const std::vector<int32_t>&) {
    return fake::Fault::kAbort;
  };
  const toy::Ran ran = toy::run(f.engine);
  CHECK(ran.status == LH_DECODE_ERROR);
  CHECK(ran.result.decode_code == 2);
  CHECK(ran.message.find("aborted without a request") != std::string::npos);
  fake::settings().fault = nullptr;
  toy::run_all(f.engine);
  CHECK(f.text(1) == fake::answer(kHello, 10));
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a batch that is not begun, because memory is short, loses no state") {
  if (!is_glibc_malloc()) return;
  for (const bool recurrent : {false, true}) {
    Endless f(256, 4, true, recurrent);
    toy::submit(f.engine, Request(1, kHello, 10));
    toy::run(f.engine, 2);
    int64_t n_pages = 0;
    std::ifstream("/proc/self/statm") >> n_pages;
    rlimit limit{};
    REQUIRE(getrlimit(RLIMIT_AS, &limit) == 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = static_cast<rlim_t>(n_pages * sysconf(_SC_PAGESIZE)) + lh::kRoom / 2;
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    const toy::Ran ran = toy::run(f.engine);
    limit.rlim_cur = before;
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    CHECK(ran.status == LH_DECODE_ERROR);
    CHECK(ran.message.find("out of memory") != std::string::npos);
    CHECK(f.engine.stats().n_lost == 0);
    CHECK(f.engine.info().n_cells_used == 6);
    toy::run_all(f.engine);
    CHECK(f.text(1) == fake::answer(kHello, 10));
  }
}
#endif
