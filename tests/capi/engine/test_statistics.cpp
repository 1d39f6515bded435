// Tests that the statistics of requests sum to the statistics of their calls, and the
// statistics of calls to the total.
#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>

#include "allocations.hpp"
#include "engine_fixture.hpp"
#include "guard.hpp"
#include "statistics.hpp"

using toy::Request;

namespace {

constexpr int64_t kCalls = 3;

// Sums the statistics of the requests of a call.
struct Sum {
  int64_t n_prefill = 0, n_reused = 0, n_decode = 0, n_generated = 0, n_draft = 0;
  int64_t n_pauses = 0, n_batches = 0, n_clients = 0;
  double t_prefill_s = 0, t_decode_s = 0;

  void add(const lh_client_info& info) {
    n_prefill += info.n_prefill;
    n_reused += info.n_reused;
    n_decode += info.n_decode;
    n_generated += info.n_generated;
    n_draft += info.n_draft;
    n_pauses += info.n_pauses;
    t_prefill_s += info.t_prefill_s;
    t_decode_s += info.t_decode_s;
  }

  void check(const lh_stats& stats) const {
    CHECK(stats.n_prefill == n_prefill);
    CHECK(stats.n_reused == n_reused);
    CHECK(stats.n_decode == n_decode);
    CHECK(stats.n_generated == n_generated);
    CHECK(stats.n_draft == n_draft);
    CHECK(stats.n_pauses == n_pauses);
    CHECK(stats.n_batches == n_batches);
    CHECK(stats.n_clients == n_clients);
    CHECK(stats.t_prefill_s == doctest::Approx(t_prefill_s));
    CHECK(stats.t_decode_s == doctest::Approx(t_decode_s));
  }
};

// Random calls run concurrently, one step at a time. A request whose number of tokens
// increased was in the batch.
class CountedRun {
 public:
  CountedRun(uint32_t seed, bool unified) : random_(seed), f_(2048, 6, unified) {
    fake::settings().eos_share = 0.02;
    fake::settings().repeat_share = 0.9;
    fake::settings().fault = [this](int64_t, const std::vector<int32_t>&) {
      return chance(0.05) ? fake::Fault::kFatal : fake::Fault::kNone;
    };
  }

  void run() {
    for (int i = 0; i < 150; ++i) {
      if (chance(0.3)) submit();
      if (chance(0.1)) move();
      step();
      if (chance(0.2)) release_ended();
    }
    while (!call_of_.empty()) release(call_of_.begin()->first);
    for (int64_t call = 0; call < kCalls; ++call) {
      CAPTURE(call);
      sums_[call].check(f_.engine.stats(call));
    }
    sums_[-1].check(f_.engine.stats());
    CHECK(f_.engine.stats().n_cells_max == n_cells_max_);
  }

  int64_t n_drafts() { return f_.engine.stats().n_draft; }
  int64_t n_failed() { return f_.engine.stats().n_failed_decodes; }
  int64_t n_pauses() { return f_.engine.stats().n_pauses; }
  int64_t n_reused() { return f_.engine.stats().n_reused; }

 private:
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  int64_t number(int64_t high) {
    return std::uniform_int_distribution<int64_t>(0, high)(random_);
  }

  void submit() {
    const int64_t call = number(kCalls - 1);
    std::string text = "0123456789 of the prompts";
    const bool is_prefix = chance(0.2);
    if (!is_prefix) text += std::string(static_cast<size_t>(1 + number(30)), 'x');
    Request request(n_++, toy::tokens(text), is_prefix ? 0 : 40);
    request.of_call(call).may_draft(chance(0.9)).priority(static_cast<int32_t>(call));
    for (const auto& [id, of] : call_of_) {
      const bool is_held = f_.engine.get(id).state == LH_STATE_HELD;
      if (!is_prefix && is_held) request.fork_from(id);
    }
    try {
      f_.engine.submit(request.native);
      call_of_[request.native.id] = call;
    } catch (const lh::Error& e) {
      CHECK(e.code() == LH_NO_SPACE);
    }
  }

  // Pauses, resumes or ends a request.
  void move() {
    for (const auto& [id, call] : call_of_) {
      if (!chance(0.5)) continue;
      const int32_t state = f_.engine.get(id).state;
      if (state == LH_STATE_PAUSED) {
        if (f_.engine.info().n_seq_used < 6) f_.engine.resume(id);
      } else if (state <= LH_STATE_DECODE && chance(0.8)) {
        f_.engine.pause(id);
      } else {
        f_.engine.end(id, LH_FINISH_CANCELLED, nullptr);
      }
    }
  }

  void step() {
    std::map<int64_t, int32_t> before;
    for (const auto& [id, call] : call_of_) before[id] = n_taken(id);
    if (toy::run(f_.engine, 1).result.n_steps == 0) return;
    std::set<int64_t> calls;
    for (const auto& [id, call] : call_of_) {
      if (n_taken(id) == before[id]) continue;
      ++sums_[call].n_clients;
      ++sums_[-1].n_clients;
      calls.insert(call);
    }
    for (const int64_t call : calls) ++sums_[call].n_batches;
    ++sums_[-1].n_batches;
    n_cells_max_ = f_.engine.stats().n_cells_max;
    for (const int64_t call : calls) {
      CHECK(f_.engine.stats(call).n_cells_max <= n_cells_max_);
    }
  }

  int32_t n_taken(int64_t id) {
    const lh_client_info info = f_.engine.get(id);
    return info.n_prefill + info.n_decode;
  }

  void release_ended() {
    std::vector<int64_t> ended;
    for (const auto& [id, call] : call_of_) {
      if (f_.engine.get(id).state >= LH_STATE_FINISHED || chance(0.02)) {
        ended.push_back(id);
      }
    }
    for (const int64_t id : ended) release(id);
  }

  void release(int64_t id) {
    const lh_client_info info = f_.engine.get(id);
    sums_[call_of_[id]].add(info);
    sums_[-1].add(info);
    f_.engine.release(id);
    call_of_.erase(id);
  }

  std::mt19937 random_;
  Fixture f_;
  std::map<int64_t, int64_t> call_of_;  // ids of existing requests
  std::map<int64_t, Sum> sums_;         // by call; -1: all calls
  int64_t n_ = 0;
  int64_t n_cells_max_ = 0;
};

}  // namespace

TEST_CASE("what requests take adds up to their calls', and that to all") {
  int64_t n_drafts = 0;
  int64_t n_failed = 0;
  int64_t n_pauses = 0;
  int64_t n_reused = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    CountedRun scenario(seed, seed % 2 == 0);
    scenario.run();
    n_drafts += scenario.n_drafts();
    n_failed += scenario.n_failed();
    n_pauses += scenario.n_pauses();
    n_reused += scenario.n_reused();
  }
  // If this fails, the scenarios test too little.
  CHECK(n_drafts > 100);
  CHECK(n_failed > 100);
  CHECK(n_pauses > 100);
  CHECK(n_reused > 100);
}

TEST_CASE("a failed decode counts for the calls that were in the batch") {
  for (const bool recurrent : {false, true}) {
    Endless f(256, 4, true, recurrent);
    toy::submit(f.engine, Request(1, kHello, 10).of_call(1));
    toy::submit(f.engine, Request(2, kHello, 10).of_call(1));
    toy::submit(f.engine, Request(3, kHello, 10).of_call(2));
    toy::run(f.engine, 1);
    fake::settings().fault = [](int64_t, const std::vector<int32_t>&) {
      return fake::Fault::kFatal;
    };
    const std::vector<int64_t> first = {1, 2};
    CHECK(toy::run(f.engine, 1, &first).status == LH_DECODE_ERROR);
    CHECK(f.engine.stats(1).n_failed_decodes == 1);
    CHECK(f.engine.stats(2).n_failed_decodes == 0);
    CHECK(f.engine.stats().n_failed_decodes == 1);
    CHECK(f.engine.stats(1).n_lost == (recurrent ? 1 : 0));
    CHECK(f.engine.stats().n_lost == (recurrent ? 1 : 0));
  }
}

TEST_CASE("a call is forgotten, whoever of it is left") {
  Endless f;
  toy::submit(f.engine, Request(1, kHello, 10).of_call(5));
  toy::run(f.engine, 3);
  CHECK(f.engine.stats(5).n_generated == 3);
  CHECK(f.engine.stats(6).n_batches == 0);
  f.engine.forget_call(5);
  f.engine.forget_call(5);
  CHECK(f.engine.stats(5).n_generated == 0);
  toy::submit(f.engine, Request(2, kHello, 10).of_call(5));
  toy::run(f.engine, 2);
  CHECK(f.engine.stats(5).n_generated == 2);
  CHECK(f.engine.stats().n_generated == 7);
  CHECK(f.engine.get(1).n_generated == 5);
  CHECK_THROWS_AS(toy::submit(f.engine, Request(3, kHello, 10).of_call(-1)), lh::Error);
}

TEST_CASE("a call that memory ran out for has statistics of zeros") {
  for (const int64_t n : {1, 2}) {
    lh::Statistics statistics;
    {
      const allocations::Failing failing(n, n);
      CHECK_THROWS_AS(statistics.of_call(7), std::bad_alloc);
    }
    CHECK(statistics.get(7).n_batches == 0);
    statistics.of_call(7)->n_batches = 1;
    CHECK(statistics.get(7).n_batches == 1);
  }
}
