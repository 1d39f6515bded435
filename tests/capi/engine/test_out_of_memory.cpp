// Tests in which one allocation fails, each one of a run in turn. Functions of libllama
// have all memory.
#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "allocations.hpp"
#include "engine_fixture.hpp"

using toy::Request;

namespace {

// Requests of all kinds, with the arrays to which they point.
struct AllKinds {
  AllKinds() {
    const auto add = [this](const std::string& prompt, int32_t max_tokens) -> Request& {
      const auto id = static_cast<int64_t>(requests.size());
      return requests.emplace_back(id, kHello + prompt, max_tokens);
    };
    add("plain", 5).stop({"never written"});
    add("logprobs", 4).native.logprobs = 1 + 3;
    add("grammar", 6).sampling.grammar = "root ::= \"ab\" [a-z]+ \"z\"";
    add("choices", 9).choose({"one choice", "one other", "two"});
    Request& written = add("paths", 9).choose({"one choice", "one other", "two"});
    written.native.logprobs = 1;
    Request& score = add("score", 4);
    score.native.score = &tree;
    score.native.logprobs = 1 + 2;
    add("thought", 4).native.thinking = &thinking;
    Request& scored = add("score behind", 4);
    scored.native.score = &tree;
    scored.native.thinking = &unopened;
    Request& thought = add("logprobs behind", 4);
    thought.native.thinking = &unopened;
    thought.native.logprobs = 1;
    Request& drawn = add("drawn", 6);
    drawn.sampling.temperature = 1.0F;
    drawn.sampling.dry_multiplier = 0.5F;
    drawn.sampling.penalty_repeat = 1.1F;
    drawn.sampling.repeat_last_n = 4;
    add("drafts drafts drafts drafts", 9).may_draft();
    requests.emplace_back(requests.size(), kHello, 3).fork_from(kPrefix);
  }

  static constexpr int64_t kPrefix = 100;

  void submit(lh_engine& engine) const {
    toy::submit(engine, Request(kPrefix, kHello, 0).whole());
    toy::run_all(engine);
    for (const Request& request : requests) engine.submit(request.native);
  }

  const std::vector<int32_t> token = toy::tokens("abacd");
  const std::vector<int32_t> parent = {-1, 0, -1, 2, 3};
  const lh_score tree{sizeof(lh_score), 5, token.data(), parent.data()};
  const std::vector<int32_t> closing = toy::tokens("!</t>\n");
  const std::vector<int32_t> end = {fake::kControl};
  const lh_sampling_params sampling = toy::greedy();
  const lh_thinking thinking = make_thinking(1);
  const lh_thinking unopened = make_thinking(0);
  std::deque<Request> requests;

 private:
  lh_thinking make_thinking(int32_t is_open) const {
    lh_thinking t{};
    t.struct_size = sizeof(t);
    t.budget = 4;
    t.is_open = is_open;
    t.start = t.end = end.data();
    t.n_start = t.n_end = 1;
    t.closing = closing.data();
    t.n_closing = static_cast<int32_t>(closing.size());
    t.sampling = &sampling;
    return t;
  }
};

constexpr double kNoRow = 1.0;  // in place of NaN, which is not equal to itself

struct Output {
  std::string text;
  std::vector<double> logprobs;
  int32_t state;
};

Output output_of(Fixture& f, int64_t id) {
  const lh_client_info info = f.engine.get(id);
  Output out{f.text(id), {}, info.state};
  for (int32_t i = 0; i < info.n_logprobs; ++i) {
    out.logprobs.push_back(info.logprobs[i] < 0 ? info.logprobs[i] : kNoRow);
  }
  return out;
}

}  // namespace

TEST_CASE("a step without memory fails the request that needs it, and no other waits") {
  struct Setting {
    const char* name;
    lh_engine_params params;
    bool is_recurrent = false;
    int64_t stride = 1;
  };
  const lh_engine_params pool = toy::engine_params(800, 16, true);
  const lh_engine_params streams = toy::engine_params(16 * 64, 16, false);
  const AllKinds kinds;
  for (const Setting& setting :
       {Setting{"pool", pool}, Setting{"streams", streams},
        Setting{"recurrent", pool, true, 11},
        Setting{"uniform", toy::deterministic_params(64, 16), false, 11}}) {
    INFO("setting: ", setting.name);
    std::map<int64_t, Output> expected;
    const auto run = [&](const auto& without_memory, bool is_one) {
      Endless f(setting.params, setting.is_recurrent);
      fake::settings().repeat_share = 0.5;
      kinds.submit(f.engine);
      std::map<int64_t, int> n_events;
      const auto run_all = [&] {
        for (toy::Ran ran{};;) {
          ran = toy::run(f.engine);
          const allocations::Exempt exempt;
          for (const int64_t id : ran.events) ++n_events[id];
          REQUIRE(ran.status == LH_OK);
          if (ran.result.n_active == 0) return;
          REQUIRE((ran.result.n_steps > 0 || !ran.events.empty()));
        }
      };
      without_memory(run_all);
      run_all();
      int32_t n_failed = 0;
      for (const Request& request : kinds.requests) {
        const int64_t id = request.native.id;
        INFO("request: ", id);
        const Output output = output_of(f, id);
        CHECK(n_events[id] == 1);
        const lh_client_info info = f.engine.get(id);
        for (int64_t i = 0; i < int64_t{info.n_logprobs} * info.n_top; ++i) {
          CHECK(info.top_tokens[i] < fake::kVocab);
        }
        if (output.state == LH_STATE_FAILED) {
          ++n_failed;
          continue;
        }
        REQUIRE(output.state == LH_STATE_FINISHED);
        const Output& first = expected.emplace(id, output).first->second;
        CHECK(output.text == first.text);
        REQUIRE(output.logprobs.size() == first.logprobs.size());
        for (size_t i = 0; i < output.logprobs.size(); ++i) {
          const double logprob = output.logprobs[i];
          CHECK((logprob == first.logprobs[i] || logprob == kNoRow));
        }
        f.engine.release(id);
      }
      if (is_one) CHECK(n_failed <= 1);
      f.engine.reset();
      CHECK(fake::n_cells_left() == 0);
      CHECK(f.engine.info().n_cells_used == 0);
    };
    run([](const auto&) {}, true);
    REQUIRE(expected.size() == kinds.requests.size());
    CHECK(for_each_allocation(run, setting.stride) > 100);
  }
}

TEST_CASE("a request that finds no memory when it is submitted leaves nothing") {
  const AllKinds kinds;
  for (const Request& request : kinds.requests) {
    for_each_allocation([&](const auto& without_memory, bool) {
      Endless f(800, 16);
      toy::submit(f.engine, Request(AllKinds::kPrefix, kHello, 0).whole());
      toy::run_all(f.engine);
      bool is_there = false;
      without_memory([&] {
        f.engine.submit(request.native);
        is_there = true;
      });
      CHECK(f.engine.info().n_seq_used == (is_there ? 2 : 1));
      if (!is_there) f.engine.submit(request.native);
      toy::run_all(f.engine);
      CHECK(f.engine.get(request.native.id).state == LH_STATE_FINISHED);
    });
  }
}

TEST_CASE("a resize without memory keeps or fails paused requests and held prefixes") {
  for_each_allocation([&](const auto& without_memory, bool) {
    Endless f(256, 4);
    toy::submit(f.engine, Request(9, kHello, 0));
    toy::run_all(f.engine);
    toy::submit(f.engine, Request(1, kHello + "1", 6).fork_from(9));
    toy::run(f.engine, 3);
    f.engine.pause(1);
    without_memory([&] { f.engine.resize(toy::engine_params(512, 8, true)); });
    f.engine.resize(toy::engine_params(512, 6, true));
    for (const int64_t id : {1, 9}) {
      const lh_client_info info = f.engine.get(id);
      if (info.state == LH_STATE_FAILED) CHECK(std::string(info.message) != "");
    }
    if (f.engine.get(9).state == LH_STATE_HELD) {
      toy::submit(f.engine, Request(2, kHello + "2", 3).fork_from(9));
    }
    if (f.engine.get(1).state == LH_STATE_PAUSED) f.engine.resume(1);
    toy::run_all(f.engine);
    if (f.engine.get(1).state != LH_STATE_FAILED) {
      CHECK(f.text(1) == fake::answer(kHello + "1", 6));
    }
    f.engine.reset();
    CHECK(fake::n_cells_left() == 0);
  });
}
