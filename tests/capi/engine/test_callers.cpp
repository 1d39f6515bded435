// Tests the functions for a loop that serves many callers: waking, events for first
// tokens, priorities, and new output.
#include <doctest/doctest.h>

#include <thread>

#include "engine_fixture.hpp"
#include "guard.hpp"
#include "utf8.hpp"

using toy::Request;

namespace {

// Reads the new output after each step until the answer has ended.
struct Reader {
  std::string text;
  std::vector<int32_t> tokens;

  void read(lh_engine& engine, int64_t id) {
    const lh_piece piece = engine.read(id, static_cast<int32_t>(text.size()),
                                       static_cast<int32_t>(tokens.size()));
    const std::string added(piece.text, static_cast<size_t>(piece.n_text));
    std::string valid;
    lh::append_valid_utf8(valid, added);
    CHECK(added == valid);
    text += added;
    tokens.insert(tokens.end(), piece.tokens, piece.tokens + piece.n_tokens);
    CHECK(piece.n_bytes_now == static_cast<int32_t>(text.size()));
    CHECK(piece.n_tokens_now == static_cast<int32_t>(tokens.size()));
  }

  void read_all(lh_engine& engine, int64_t id) {
    read(engine, id);
    while (toy::run(engine, 1).result.n_active > 0) read(engine, id);
    read(engine, id);
    const lh_client_info info = engine.get(id);
    CHECK(text == std::string(info.text, static_cast<size_t>(info.n_text)));
    CHECK(tokens == std::vector<int32_t>(info.tokens, info.tokens + info.n_generated));
  }
};

}  // namespace

TEST_CASE("a wake ends the next run after its first step, once") {
  Endless f;
  toy::submit(f.engine, Request(1, kHello, 100));
  f.engine.wake();
  f.engine.wake();
  const toy::Ran ran = toy::run(f.engine);
  CHECK(ran.status == LH_OK);
  CHECK(ran.result.n_steps == 1);
  CHECK(ran.result.n_active == 1);
  CHECK(ran.events.empty());
  CHECK(toy::run(f.engine, 5).result.n_steps == 5);
}

TEST_CASE("a wake from another thread ends a run after the step it is at") {
  Endless f;
  toy::submit(f.engine, Request(1, kHello, 100));
  fake::settings().fault = [&](int64_t n, const std::vector<int32_t>&) {
    // The run now holds the engine's lock.
    if (n == 10) std::thread([&] { lh_engine_wake(&f.engine); }).join();
    return fake::Fault::kNone;
  };
  const toy::Ran ran = toy::run(f.engine);
  CHECK(ran.status == LH_OK);
  CHECK(ran.result.n_steps == 10);
  toy::run_all(f.engine);
  CHECK(f.text(1) == fake::answer(kHello, 100));
  lh_engine_wake(nullptr);
}

TEST_CASE("the first token of a watched request is an event, and only that") {
  for (const bool unified : {true, false}) {
    Endless f(512, 4, unified);
    toy::submit(f.engine, Request(1, toy::tokens(std::string(40, 'x')), 10).watch());
    toy::submit(f.engine, Request(2, kHello, 5));
    const toy::Ran first = toy::run(f.engine);
    CHECK(first.events == std::vector<int64_t>{1});
    CHECK(f.engine.get(1).n_generated == 1);
    CHECK(f.engine.get(1).state == LH_STATE_DECODE);
    CHECK(f.engine.get(1).t_first_s > 0);
    f.engine.pause(1);
    f.engine.resume(1);
    CHECK(toy::run(f.engine).events == std::vector<int64_t>{2});
    CHECK(toy::run(f.engine).events == std::vector<int64_t>{1});
    CHECK(f.engine.get(1).n_generated == 10);
  }
}

TEST_CASE("the first token of a watched prompt does not wait for another batch") {
  for (const bool has_another : {false, true}) {
    for (const int32_t priority : {0, 1}) {
      Endless f(512, 4, false);
      toy::submit(f.engine, Request(1, kHello, 20));
      toy::run(f.engine, 2);
      toy::submit(f.engine,
                  Request(2, toy::tokens("abcdef"), 5).watch().priority(priority));
      if (has_another) toy::submit(f.engine, Request(3, toy::tokens("abc"), 5));
      toy::run(f.engine, 1);
      // The last tokens of other prompts are computed together, see
      // MixedBatch::choose_parts.
      const bool is_there = priority > 0 || !has_another;
      CHECK(f.engine.get(2).n_generated == (is_there ? 1 : 0));
      toy::run_all(f.engine);
      CHECK(f.text(2) == fake::answer(toy::tokens("abcdef"), 5));
    }
  }
}

TEST_CASE("a watched request whose first token is its last is one event") {
  for (const double eos_share : {0.0, 1.0}) {
    Fixture f;
    fake::settings().eos_share = eos_share;
    toy::submit(f.engine, Request(1, kHello, 1).watch());
    CHECK(toy::run(f.engine).events == std::vector<int64_t>{1});
    CHECK((f.engine.get(1).t_first_s > 0) == (eos_share == 0.0));
    CHECK(toy::run(f.engine).events.empty());
  }
}

TEST_CASE("prompts of a higher priority come first, and equals as they came") {
  const auto prompt = toy::tokens(std::string(40, 'x'));
  for (const bool uniform : {false, true}) {
    Fixture f(uniform ? toy::deterministic_params(64, 4)
                      : toy::engine_params(256, 4, true));
    toy::submit(f.engine, Request(1, prompt, 1).priority(-1));
    toy::submit(f.engine, Request(2, prompt, 1));
    toy::submit(f.engine, Request(3, prompt, 1).priority(7));
    toy::submit(f.engine, Request(4, prompt, 1).priority(7));
    std::vector<int64_t> ended;
    while (ended.size() < 4) {
      const toy::Ran ran = toy::run(f.engine, 1);
      ended.insert(ended.end(), ran.events.begin(), ran.events.end());
    }
    CHECK(ended == std::vector<int64_t>{3, 4, 2, 1});
    for (const int64_t id : ended) CHECK(f.text(id) == fake::answer(prompt, 1));
  }
}

TEST_CASE("a prefix whose priority is raised comes before older prompts") {
  const auto prompt = toy::tokens(std::string(200, 'x'));
  for (const bool is_paused : {false, true}) {
    Fixture f(1024, 4);
    toy::submit(f.engine, Request(1, prompt, 1));
    toy::submit(f.engine, Request(2, prompt, 0).priority(-1));
    toy::run(f.engine, 1);
    if (is_paused) f.engine.pause(2);
    f.engine.set_priority(2, 1);
    if (is_paused) f.engine.resume(2);
    CHECK(toy::run(f.engine).events == std::vector<int64_t>{2});
    CHECK(f.engine.get(2).state == LH_STATE_HELD);
    CHECK(toy::run(f.engine).events == std::vector<int64_t>{1});
  }
}

TEST_CASE("drafts are of those requests that may have them") {
  Endless f(512, 4, false);
  fake::settings().repeat_share = 1;
  for (int64_t id = 0; id < 4; ++id) {
    toy::submit(f.engine,
                Request(id, toy::tokens("0123456789" + std::string(id, 'x')), 40)
                    .may_draft(id > 0));
  }
  toy::run_all(f.engine);
  CHECK(f.engine.get(0).n_draft == 0);
  for (int64_t id = 1; id < 4; ++id) CHECK(f.engine.get(id).n_draft > 0);
}

TEST_CASE("an answer read in pieces is the whole answer") {
  for (int64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Endless f(512, 2);
    const auto prompt = toy::tokens("read " + std::to_string(seed));
    toy::submit(f.engine, Request(1, prompt, 60));
    Reader plain;
    plain.read_all(f.engine, 1);
    CHECK(plain.text == fake::answer(prompt, 60));
    CHECK(plain.tokens.size() == 60);
    // Cases: a stop text that occurs, one that nearly occurs, and one that contains
    // another.
    const std::string middle = plain.text.substr(plain.text.size() / 2, 6);
    const std::vector<std::string> stops = {middle, plain.text.substr(5, 4) + "\n\n!",
                                            middle.substr(1) + "?"};
    toy::submit(f.engine, Request(2, prompt, 60).stop(stops));
    Reader cut;
    cut.read_all(f.engine, 2);
    CHECK(f.engine.get(2).finish == LH_FINISH_STOP);
    // The whole characters before the stop text.
    const size_t end = plain.text.find(middle);
    CHECK(cut.text ==
          plain.text.substr(0, lh::utf8_complete_prefix(plain.text.data(), end)));
  }
}

TEST_CASE("the text of choices comes at their end") {
  Fixture f;
  toy::submit(f.engine, Request(1, kHello, 8).choose({"yes", "yellow", "no"}));
  toy::run(f.engine, 1);
  if (f.engine.get(1).state == LH_STATE_DECODE) CHECK(f.engine.read(1, 0, 0).n_text == 0);
  Reader reader;
  reader.read_all(f.engine, 1);
  CHECK((reader.text == "yes" || reader.text == "yellow" || reader.text == "no"));
}

TEST_CASE("what an answer does not have cannot be read on from") {
  Endless f;
  toy::submit(f.engine, Request(1, kHello, 20));
  toy::run(f.engine, 5);
  const lh_piece all = f.engine.read(1, 0, 0);
  CHECK(all.n_tokens == 5);
  CHECK(f.engine.read(1, all.n_bytes_now, all.n_tokens_now).n_text == 0);
  CHECK(code_of([&] { f.engine.read(1, -1, 0); }) == LH_INVALID_ARGUMENT);
  CHECK(code_of([&] { f.engine.read(1, 0, -1); }) == LH_INVALID_ARGUMENT);
  CHECK(code_of([&] { f.engine.read(1, all.n_bytes_now + 1, 0); }) ==
        LH_INVALID_ARGUMENT);
  CHECK(code_of([&] { f.engine.read(1, 0, 6); }) == LH_INVALID_ARGUMENT);
  CHECK(code_of([&] { f.engine.read(2, 0, 0); }) == LH_NOT_FOUND);
}

TEST_CASE("requests ended between runs leave the others as they are") {
  for (const bool uniform : {false, true}) {
    Endless f(uniform ? toy::deterministic_params(96, 8)
                      : toy::engine_params(8 * 96, 8, false));
    fake::settings().uniform_rows = uniform ? lh::kUniformRows : 1;
    for (int64_t id = 0; id < 8; ++id) {
      toy::submit(f.engine, Request(id, toy::tokens("prompt " + std::to_string(id)), 60));
    }
    for (const int64_t id : {1, 7, 2, 4}) {
      toy::run(f.engine, 3 + static_cast<int32_t>(id));
      f.engine.end(id, LH_FINISH_CANCELLED, nullptr);
    }
    toy::run_all(f.engine);
    for (const int64_t id : {0, 3, 5, 6}) {
      const auto prompt = toy::tokens("prompt " + std::to_string(id));
      CHECK(f.text(id) == fake::answer(prompt, 60));
    }
    CHECK(fake::n_cells_left() == 0);
  }
}
