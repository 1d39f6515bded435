// Tests of requests that keep their cells when they have ended, on the toy model.
#include <doctest/doctest.h>

#include <algorithm>

#include "engine_fixture.hpp"
#include "guard.hpp"

using toy::Request;

namespace {

const std::vector<int32_t> kRules = toy::tokens("the rules of the text: ");

// Runs a request of at most 6 tokens, which keeps its cells.
void ask(Fixture& f, Request request) {
  toy::submit(f.engine, request.keep());
  toy::run_all(f.engine);
}

std::vector<int32_t> kept(Fixture& f, int64_t id) {
  const lh_client_info info = f.engine.get(id);
  return {info.kept, info.kept + info.n_kept};
}

}  // namespace

TEST_CASE("a request continues the cells that another one has kept") {
  for (const bool unified : {true, false}) {
    Endless f(256, 4, unified);
    ask(f, Request(1, kRules + "one", 6));
    CHECK(f.engine.info().n_seq_used == 1);
    const auto tokens = kept(f, 1);
    CHECK(tokens.size() == kRules.size() + 3 + 5);  // the last token has no cell
    CHECK(f.engine.get(1).least_kept == 1);

    // Another text after the same rules: the other cells are removed.
    const auto n_rules = static_cast<int32_t>(kRules.size());
    ask(f, Request(2, kRules + "second", 6).continues(1, n_rules));
    CHECK(f.text(2) == fake::answer(kRules + "second", 6));
    CHECK(f.engine.get(2).n_reused == n_rules);
    CHECK(f.engine.get(2).n_prefill == 6);
    CHECK(f.engine.get(1).n_kept == 0);
    CHECK(f.engine.info().n_seq_used == 1);

    // A conversation: the prompt starts with the last prompt and its answer.
    const auto talk = kept(f, 2) + " and then?";
    const auto n_talk = static_cast<int32_t>(kept(f, 2).size());
    ask(f, Request(3, talk, 6).continues(2, n_talk));
    CHECK(f.text(3) == fake::answer(talk, 6));
    CHECK(f.engine.get(3).n_reused == n_talk);
    for (const int64_t id : {1, 2, 3}) f.engine.release(id);
    CHECK(f.engine.info().n_cells_used == 0);
    CHECK(fake::n_cells_left() == 0);
  }
}

TEST_CASE("a prefix copies kept cells; in a pool it takes them over") {
  for (const bool unified : {true, false}) {
    Endless f(256, 4, unified);
    ask(f, Request(1, kRules + "one", 6));
    const auto n_rules = static_cast<int32_t>(kRules.size());
    const auto prefix = kRules + "tw";
    toy::submit(f.engine, Request(100, prefix, 0).continues(1, n_rules));
    CHECK(f.engine.get(1).n_kept == (unified ? 0 : n_rules + 3 + 5));
    f.engine.release(1);
    toy::run(f.engine);
    CHECK(f.engine.get(100).n_prefill == 2);
    for (const std::string end : {"o", "elve"}) {
      const auto id = static_cast<int64_t>(end.size());
      toy::submit(f.engine, Request(id, prefix + end, 6).fork_from(100));
      toy::run_all(f.engine);
      CHECK(f.text(id) == fake::answer(prefix + end, 6));
      f.engine.release(id);
    }
    f.engine.release(100);
    CHECK(f.engine.info().n_cells_used == 0);
  }
}

TEST_CASE("cells of rejected draft tokens are not kept") {
  Fixture f;
  ask(f, Request(1, toy::tokens("abababababababab"), 9).may_draft());
  const auto tokens = kept(f, 1);
  CHECK(f.engine.seq_pos_max(0) == static_cast<int32_t>(tokens.size()) - 1);
}

TEST_CASE("a choice keeps no cells of other choices that were scored") {
  for (const bool unified : {true, false}) {
    for (size_t n = 0; n < 20; ++n) {
      Endless f(256, 4, unified);
      ask(f,
          Request(1, kRules + std::string(n, 'x'), 6).choose({"abc", "abd", "b", "cde"}));
      const auto talk = kept(f, 1) + "!";
      ask(f, Request(2, talk, 6).continues(1, f.engine.get(1).n_kept));
      CHECK(f.text(2) == fake::answer(talk, 6));
    }
  }
}

TEST_CASE("requests that are cancelled, or keep nothing, give their cells back") {
  Fixture f;
  toy::submit(f.engine, Request(1, kRules, 6).keep());
  toy::run(f.engine, 1);
  f.engine.end(1, LH_FINISH_CANCELLED, "");
  toy::submit(f.engine, Request(2, kRules, 6));
  toy::run_all(f.engine);
  CHECK(f.engine.info().n_seq_used == 0);
  for (const int64_t id : {1, 2}) {
    CHECK(f.engine.get(id).n_kept == 0);
    const auto submit = [&, id = id] {
      f.engine.submit(Request(3, kRules + "!", 6).continues(id, 4).native);
    };
    CHECK(code_of(submit) == LH_INVALID_ARGUMENT);
  }
}

TEST_CASE("a pool does not truncate the cells of a prefix") {
  Endless f;
  toy::submit(f.engine, Request(100, kRules, 0));
  toy::run(f.engine);
  ask(f, Request(1, kRules + "one", 6).fork_from(100));
  const auto n_rules = static_cast<int32_t>(kRules.size());
  CHECK(f.engine.get(1).least_kept == n_rules);
  f.engine.release(100);
  const auto submit = [&](int32_t n) {
    f.engine.submit(Request(2, kRules + "two", 6).continues(1, n).native);
  };
  CHECK(code_of([&] { submit(n_rules - 1); }) == LH_INVALID_ARGUMENT);
  CHECK(code_of([&] { submit(n_rules + 1); }) == LH_INVALID_ARGUMENT);  // "o" is not "t"
  submit(n_rules);
  toy::run_all(f.engine);
  CHECK(f.text(2) == fake::answer(kRules + "two", 6));
  f.engine.release(2);
  f.engine.release(1);
  CHECK(f.engine.info().n_cells_used == 0);
}

TEST_CASE("recurrent states are continued as a whole") {
  Endless f(256, 4, true, true);
  ask(f, Request(1, kRules + "one", 6));
  const lh_client_info info = f.engine.get(1);
  CHECK(info.least_kept == info.n_kept);
  const auto talk = kept(f, 1) + "!";
  ask(f, Request(2, talk, 6).continues(1, info.n_kept));
  CHECK(f.text(2) == fake::answer(talk, 6));
  CHECK(f.engine.get(2).n_prefill == 1);
}

TEST_CASE("a resize moves kept cells and held prefixes, or says that they are lost") {
  for (const bool unified : {true, false}) {
    for (const bool is_larger : {true, false}) {
      CAPTURE(unified);
      CAPTURE(is_larger);
      Endless f(512, 4, unified);
      ask(f, Request(1, kRules + "one", 6));
      toy::submit(f.engine, Request(100, kRules, 0));
      toy::run(f.engine);
      const lh_client_info before = f.engine.get(1);
      const int32_t n_used = f.engine.info().n_cells_used;
      // Streams of another number, and a pool without enough cells, cannot take them.
      f.engine.resize(toy::engine_params(is_larger ? 1024 : 16,
                                         is_larger || unified ? 4 : 2, unified));
      const int64_t n_prefill = f.engine.stats().n_prefill;
      CHECK((f.engine.get(1).n_kept == before.n_kept) == is_larger);
      CHECK((f.engine.get(1).n_kept == 0) == !is_larger);
      CHECK((f.engine.get(100).state == LH_STATE_HELD) == is_larger);
      if (is_larger) {
        CHECK(f.engine.info().n_cells_used == n_used);
        const auto talk = kept(f, 1) + "!";
        toy::submit(f.engine, Request(2, talk, 6).continues(1, before.n_kept));
        toy::submit(f.engine, Request(3, kRules + "two", 6).fork_from(100));
        toy::run_all(f.engine);
        CHECK(f.text(2) == fake::answer(talk, 6));
        CHECK(f.text(3) == fake::answer(kRules + "two", 6));
        CHECK(f.engine.stats().n_prefill == n_prefill + 1 + 3);
      } else {
        CHECK(std::string(f.engine.get(100).message)
                  .find("cells of the prefix were lost") != std::string::npos);
        CHECK(f.engine.info().n_seq_used == 0);
      }
      for (const int64_t id : {1, 100}) f.engine.release(id);
      CHECK(fake::counts().n_violations == 0);
    }
  }
}
