// Tests of thoughts before answers and scores, compared with a computation on the toy.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <deque>
#include <random>
#include <string>

#include "allocations.hpp"
#include "engine_fixture.hpp"
#include "guard.hpp"
#include "utf8.hpp"

namespace {

using Tokens = std::vector<int32_t>;

const Tokens kClosing = toy::tokens("!</t>\n");
const Tokens kAfter = toy::tokens("\n");

// A thought, with the arrays to which it points.
struct Thinking {
  int32_t budget = 8;
  bool is_open = true;
  Tokens start, end = {fake::kControl}, after = kAfter, closing = kClosing;
  lh_sampling_params sampling = toy::greedy();
  lh_thinking native{};

  const lh_thinking* get() {
    const auto n = [](const Tokens& tokens) {
      return static_cast<int32_t>(tokens.size());
    };
    native = {};
    native.struct_size = sizeof(native);
    native.budget = budget;
    native.is_open = is_open ? 1 : 0;
    native.start = start.data();
    native.n_start = n(start);
    native.end = end.data();
    native.n_end = n(end);
    native.after = after.data();
    native.n_after = n(after);
    native.closing = closing.data();
    native.n_closing = n(closing);
    native.sampling = &sampling;
    return &native;
  }
};

std::string piece(int32_t token) {
  if (token < 256) return std::string(1, static_cast<char>(token));
  return token > fake::kControl ? "word" : "";
}

std::string text_of(const Tokens& tokens) {
  std::string bytes;
  for (const int32_t token : tokens) bytes += piece(token);
  lh::TextBuffer buffer;
  buffer.append(bytes);
  buffer.finish();
  return buffer.text();
}

// Computes a thought token by token, as a reference.
struct ByHand {
  bool is_there = true;
  Tokens thought;  // drawn tokens
  std::string text;
  lh_thinking_closed closed = LH_THINKING_BY_FORCE;
  Tokens prompt;  // of the answer
};

bool ends_with(const Tokens& tokens, const Tokens& end) {
  return tokens.size() >= end.size() &&
         std::equal(end.rbegin(), end.rend(), tokens.rbegin());
}

ByHand by_hand(const Tokens& prompt, const Thinking& thinking) {
  ByHand out;
  out.prompt = prompt;
  if (!thinking.is_open) {
    const auto is_skipped = [&](int32_t token) {
      const bool is_space =
          std::string(" \t\r\n\v\f").find(static_cast<char>(token)) != std::string::npos;
      return token < 0x80 && is_space && token != thinking.start[0];
    };
    for (int32_t n = 0; n < 2 && is_skipped(fake::next(out.prompt)); ++n) {
      out.prompt.push_back(fake::next(out.prompt));
    }
    for (const int32_t token : thinking.start) {
      if (fake::next(out.prompt) != token) {
        out = {};
        out.is_there = false;
        out.prompt = prompt;
        return out;
      }
      out.prompt.push_back(token);
    }
  }
  const auto n = [&] { return static_cast<int32_t>(out.thought.size()); };
  const auto is_inside = [&] {
    std::string bytes;
    for (const int32_t token : out.thought) bytes += piece(token);
    return lh::utf8_complete_prefix(bytes.data(), bytes.size()) != bytes.size();
  };
  while (n() < thinking.budget || (n() < thinking.budget + 3 && is_inside())) {
    const int32_t token = fake::next(out.prompt);
    if (token == fake::kEos) break;
    out.prompt.push_back(token);
    out.thought.push_back(token);
    if (ends_with(out.thought, thinking.end)) {
      out.closed = LH_THINKING_BY_MODEL;
      break;
    }
  }
  const bool is_own = out.closed == LH_THINKING_BY_MODEL;
  const auto n_text = n() - static_cast<int32_t>(is_own ? thinking.end.size() : 0);
  out.text = text_of({out.thought.begin(), out.thought.begin() + n_text});
  const Tokens& next = is_own ? thinking.after : thinking.closing;
  out.prompt.insert(out.prompt.end(), next.begin(), next.end());
  return out;
}

std::string thinking_of(const lh_client_info& info) {
  return {info.thinking, static_cast<size_t>(info.n_thinking)};
}

void check_thought(const lh_client_info& info, const ByHand& expected) {
  INFO("message: ", info.message);
  CHECK(info.finish != LH_FINISH_ERROR);
  REQUIRE((info.thinking != nullptr) == expected.is_there);
  if (!expected.is_there) return;
  CHECK(thinking_of(info) == expected.text);
  CHECK(info.n_thinking_tokens == static_cast<int32_t>(expected.thought.size()));
  CHECK(info.thinking_closed == expected.closed);
}

// Returns a marker that the toy writes after a prompt: its next token or next two tokens.
Tokens a_marker(const Tokens& prompt, std::mt19937& random, bool at_once) {
  Tokens tokens = prompt;
  const size_t n_before = at_once ? 0 : random() % 10;
  const size_t n = 1 + random() % 2;
  Tokens marker;
  for (size_t i = 0; i < n_before + n; ++i) {
    const int32_t token = fake::next(tokens);
    if (token == fake::kEos) break;
    tokens.push_back(token);
    if (i >= n_before) marker.push_back(token);
  }
  // A text marker consists of characters and contains no part of the token "word".
  const auto is_part = [](int32_t token) {
    return token > 0 && token < 0x80 &&
           std::string("word").find(static_cast<char>(token)) == std::string::npos;
  };
  if (marker.empty() || !is_part(marker[0])) return {fake::kControl};
  if (!is_part(marker.back())) marker.pop_back();
  return marker;
}

struct Asked {
  Tokens prompt;
  Thinking thinking;
  bool thinks = false;
  int32_t max_tokens = 0;
};

// Random thoughts run together with plain answers; all begin with the same tokens.
std::deque<Asked> random_requests(std::mt19937& random, int32_t n) {
  std::deque<Asked> all;
  const Tokens shared = toy::tokens("A shared beginning");
  for (int32_t i = 0; i < n; ++i) {
    Asked& asked = all.emplace_back();
    asked.prompt = shared;
    for (size_t k = 1 + random() % 20; k > 0; --k) {
      asked.prompt.push_back(static_cast<int32_t>('a' + random() % 26));
    }
    asked.thinks = random() % 4 != 0;
    asked.max_tokens = 1 + static_cast<int32_t>(random() % 12);
    Thinking& thinking = asked.thinking;
    thinking.budget = static_cast<int32_t>(random() % 12);
    thinking.is_open = random() % 3 != 0;
    if (!thinking.is_open) {
      thinking.start = a_marker(asked.prompt, random, random() % 4 != 0);
      // white space may come before a marker
      if (thinking.start[0] <= ' ') thinking.start = {fake::kControl};
    }
    if (random() % 2 != 0) thinking.end = a_marker(asked.prompt, random, false);
  }
  return all;
}

void submit(lh_engine& engine, int64_t id, Asked& asked, int64_t fork_from) {
  toy::Request request(id, asked.prompt, asked.max_tokens);
  request.fork_from(fork_from);
  if (asked.thinks) request.native.thinking = asked.thinking.get();
  engine.submit(request.native);
}

void check(const lh_client_info& info, const std::string& text, const Asked& asked) {
  ByHand expected;
  expected.prompt = asked.prompt;
  expected.is_there = false;
  if (asked.thinks) expected = by_hand(asked.prompt, asked.thinking);
  check_thought(info, expected);
  CHECK(text == fake::answer(expected.prompt, asked.max_tokens));
  CHECK(info.n_prompt == static_cast<int32_t>(asked.prompt.size()));
}

// Runs requests with pauses and faults in between.
void run_disturbed(lh_engine& engine, std::mt19937& random, int64_t n) {
  std::vector<int64_t> paused;
  for (;;) {
    const toy::Ran ran = toy::run(engine, 1 + static_cast<int32_t>(random() % 3));
    const bool is_idle = ran.result.n_active == 0 && ran.events.empty();
    if (ran.status == LH_OK && is_idle && paused.empty()) return;
    for (const int64_t id : paused) engine.resume(id);
    paused.clear();
    const auto id = static_cast<int64_t>(random() % static_cast<uint64_t>(n));
    const int32_t state = engine.get(id).state;
    if (random() % 3 == 0 && (state == LH_STATE_DECODE || state == LH_STATE_PREFILL)) {
      engine.pause(id);
      paused.push_back(id);
    }
  }
}

struct Setting {
  std::string name;
  bool unified, recurrent, faults;
};

}  // namespace

TEST_CASE("thoughts beside plain answers are as by hand, with pauses and faults") {
  const char* scenarios = std::getenv("LLAMAHERD_TEST_SCENARIOS");
  const int32_t n_rounds =
      scenarios == nullptr ? 60 : std::max(10, std::atoi(scenarios) / 8);
  for (const Setting& setting :
       {Setting{"pool", true, false, true}, Setting{"streams", false, false, true},
        Setting{"recurrent", true, true, true}}) {
    INFO("setting: ", setting.name);
    for (int32_t round = 0; round < n_rounds; ++round) {
      INFO("round: ", round);
      std::mt19937 random(static_cast<uint32_t>(round));
      constexpr int32_t kRequests = 6;
      Fixture f(setting.unified ? 800 : 8 * 128, 8, setting.unified, setting.recurrent);
      fake::settings().control_share = 0.08;
      std::deque<Asked> asked = random_requests(random, kRequests);
      int64_t prefix = -1;
      if (random() % 2 == 0) {
        prefix = 100;
        toy::submit(f.engine, toy::Request(prefix, toy::tokens("A shared begin"), 0));
        toy::run_all(f.engine);
      }
      if (setting.faults) {
        fake::settings().fault = [&random](int64_t, const std::vector<int32_t>&) {
          return random() % 12 == 0 ? fake::Fault::kFatal : fake::Fault::kNone;
        };
      }
      for (int64_t id = 0; id < kRequests; ++id) {
        submit(f.engine, id, asked[static_cast<size_t>(id)], prefix);
      }
      run_disturbed(f.engine, random, kRequests);
      for (int64_t id = 0; id < kRequests; ++id) {
        INFO("request: ", id);
        check(f.engine.get(id), f.text(id), asked[static_cast<size_t>(id)]);
        f.engine.release(id);
      }
      if (prefix >= 0) f.engine.release(prefix);
      CHECK(fake::n_cells_left() == 0);
    }
  }
}

TEST_CASE("what is asked with a thought must be right") {
  Fixture f(256, 4);
  const Tokens outside = {3, fake::kVocab};
  const auto refuse = [&](const Thinking& base, const char* why, auto change,
                          int32_t max_tokens = 3) {
    Thinking thinking = base;
    thinking.get();
    change(thinking.native);
    toy::Request request(1, kHello, max_tokens);
    request.native.thinking = &thinking.native;
    CHECK_THROWS_WITH_AS(f.engine.submit(request.native), doctest::Contains(why),
                         lh::Error);
  };
  const auto as_is = [](lh_thinking&) {};
  refuse({}, "budget of thinking must be", [](auto& t) { t.budget = -1; });
  refuse({}, "n_end must be", [](auto& t) { t.n_end = -1; });
  refuse({}, "n_start must be", [](auto& t) { t.n_start = -1; });
  refuse({}, "n_after must be", [](auto& t) { t.n_after = INT32_MIN; });
  refuse({}, "n_closing must be", [](auto& t) { t.n_closing = -1; });
  refuse({}, "end must not be NULL", [](auto& t) { t.end = nullptr; });
  refuse({}, "closing must not be NULL", [](auto& t) { t.closing = nullptr; });
  refuse({}, "end of thinking must not be empty", [](auto& t) { t.n_end = 0; });
  refuse({}, "closing of thinking must not be empty", [](auto& t) { t.n_closing = 0; });
  refuse({}, "sampling of thinking", [](auto& t) { t.sampling = nullptr; });
  refuse({}, "start of thinking must not be empty", [](auto& t) { t.is_open = 0; });
  refuse({}, "after[1] of thinking must be", [&](auto& t) {
    t.after = outside.data();
    t.n_after = 2;
  });
  refuse({}, "tokens of a prompt and its thought", [](auto& t) { t.budget = INT32_MAX; });
  refuse({}, "a prefix has no thought", as_is, 0);
  Thinking bound;
  bound.sampling.grammar = "root ::= \"a\"";
  refuse(bound, "no grammar and no choices", as_is);
  CHECK(f.engine.info().n_seq_used == 0);
}

TEST_CASE("a thought without a budget is closed in the prompt, without a row") {
  Fixture f;
  Thinking thinking;
  thinking.budget = 0;
  toy::Request request(1, kHello, 4);
  request.native.thinking = thinking.get();
  thinking.native.sampling = nullptr;
  thinking.native.n_end = 0;
  f.engine.submit(request.native);
  CHECK(f.engine.get(1).thinking_closed == LH_THINKING_BY_FORCE);
  toy::run_all(f.engine);
  Tokens prompt = kHello;
  prompt.insert(prompt.end(), kClosing.begin(), kClosing.end());
  CHECK(f.text(1) == fake::answer(prompt, 4));
  CHECK(f.engine.stats().n_prefill == static_cast<int64_t>(prompt.size()));
  CHECK(f.engine.stats().n_thoughts_closed == 1);
}

TEST_CASE("no token is computed twice, and forced tokens take one step") {
  Endless f;
  Thinking thinking;
  thinking.budget = 5;
  toy::Request request(1, kHello, 4);
  request.native.thinking = thinking.get();
  f.engine.submit(request.native);
  toy::run_all(f.engine);
  const ByHand expected = by_hand(kHello, thinking);
  const auto n_thought = static_cast<int64_t>(expected.thought.size());
  const lh_stats stats = f.engine.stats();
  CHECK(stats.n_prefill == static_cast<int64_t>(kHello.size()));
  CHECK(stats.n_decode == n_thought + static_cast<int64_t>(kClosing.size()) + 4 - 1);
  CHECK(stats.n_generated == 4);
  CHECK(stats.n_thinking == n_thought);
  CHECK(stats.n_thoughts == 1);
  CHECK(stats.n_thoughts_closed == 1);
  // the prompt, each token of the thought, and each token of the answer except the last
  CHECK(stats.n_batches == 1 + n_thought + 3);
}

TEST_CASE("a score behind a thought is that of a prompt with the thought") {
  for (const bool is_recurrent : {false, true}) {
    for (const bool is_open : {true, false}) {
      Endless f(256, 4, true, is_recurrent);
      Thinking thinking;
      thinking.budget = 6;
      thinking.is_open = is_open;
      if (!is_open)
        thinking.start = {fake::kControl};  // a marker that the toy does not
                                            // write
      const Tokens token = toy::tokens("abac");
      const Tokens parent = {-1, 0, -1, 2};
      const lh_score tree{sizeof(lh_score), 4, token.data(), parent.data()};
      const ByHand expected = by_hand(kHello, thinking);
      CHECK(expected.is_there == is_open);
      for (int64_t id = 1; id <= 2; ++id) {
        toy::Request request(id, id == 1 ? kHello : expected.prompt, 2);
        request.native.sampling = nullptr;
        request.native.score = &tree;
        if (id == 1) request.native.thinking = thinking.get();
        f.engine.submit(request.native);
      }
      toy::run_all(f.engine);
      check_thought(f.engine.get(1), expected);
      const lh_client_info info = f.engine.get(1);
      const std::vector<double> scores(info.scores, info.scores + info.n_scores);
      const lh_client_info plain = f.engine.get(2);
      REQUIRE(scores.size() == 4);
      for (size_t i = 0; i < 4; ++i) CHECK(scores[i] == plain.scores[i]);
      CHECK(info.n_generated == 0);
    }
  }
}

TEST_CASE("a request cancelled inside its thought keeps the thought alone") {
  Endless f;
  Thinking thinking;
  thinking.budget = 50;
  toy::Request request(1, kHello, 4);
  request.native.thinking = thinking.get();
  request.choose({"ab", "cd"});
  f.engine.submit(request.native);
  request.native.id = 2;
  f.engine.submit(request.native);
  toy::run(f.engine, 6);
  f.engine.end(1, LH_FINISH_CANCELLED, "");
  const lh_client_info info = f.engine.get(1);
  CHECK(info.n_generated == 0);
  CHECK(info.n_text == 0);
  CHECK(info.complete == 0);
  CHECK(info.n_thinking_tokens == 6);
  CHECK(info.thinking_closed == LH_THINKING_OPEN);
  CHECK(info.n_prompt == 5);
  toy::run_all(f.engine);
  const std::string chosen = f.text(2);
  CHECK((chosen == "ab" || chosen == "cd"));
  CHECK(f.engine.get(2).thinking_closed != LH_THINKING_OPEN);
}

TEST_CASE("samples of a whole prefix begin their thoughts from its logits") {
  for (const bool unified : {true, false}) {
    Endless f(8 * 128, 8, unified);
    toy::submit(f.engine, toy::Request(9, kHello, 0).whole());
    toy::run_all(f.engine);
    Thinking open;
    Thinking unopened;
    unopened.is_open = false;
    unopened.start = {fake::kControl};
    Thinking none = open;
    none.budget = 0;
    int64_t id = 0;
    for (Thinking* thinking : {&open, &unopened, &none}) {
      toy::Request request(++id, kHello, 4);
      request.native.thinking = thinking->get();
      request.fork_from(9);
      f.engine.submit(request.native);
    }
    toy::run_all(f.engine);
    id = 0;
    for (const Thinking* thinking : {&open, &unopened, &none}) {
      CHECK(f.text(++id) == fake::answer(by_hand(kHello, *thinking).prompt, 4));
      CHECK(f.engine.get(id).n_prefill == (id == 3 ? 6 : 0));
    }
  }
}

TEST_CASE("a bound answer without a thought is as if none was asked for") {
  for (const char* grammar : {"root ::= \"abc\"", "root ::= [a-z]+"}) {
    Fixture f;
    Thinking thinking;
    thinking.is_open = false;
    thinking.start = toy::tokens("<t>");
    for (int64_t id = 1; id <= 2; ++id) {
      toy::Request request(id, kHello, 5);
      request.sampling.grammar = grammar;
      request.native.logprobs = 1;
      if (id == 1) request.native.thinking = thinking.get();
      f.engine.submit(request.native);
    }
    toy::run_all(f.engine);
    CHECK(f.text(1) == f.text(2));
    const double first = f.engine.get(1).logprobs[0];
    const double plain = f.engine.get(2).logprobs[0];
    CHECK((first == plain || (std::isnan(first) && std::isnan(plain))));
    CHECK(f.engine.get(1).thinking == nullptr);
  }
}

TEST_CASE("the budget of a thought counts as tokens to come when streams are chosen") {
  // Thoughts of 60 tokens before answers of 2 tokens take longer than an answer of 20
  // tokens.
  for (const bool is_cancelled : {false, true}) {
    INFO("cancelled: ", is_cancelled);
    Endless f(512, 3, false);
    std::vector<int32_t> order;
    fake::settings().fault = [&order](int64_t, const std::vector<int32_t>& ids) {
      order = ids;
      return fake::Fault::kNone;
    };
    std::deque<Thinking> thoughts(2);
    toy::submit(f.engine, toy::Request(0, kHello, is_cancelled ? 90 : 20));
    int64_t id = 0;
    for (Thinking& thinking : thoughts) {
      thinking.budget = 60;
      thinking.end = toy::tokens("</thought>");
      toy::Request request(++id, kHello, 2);
      request.native.thinking = thinking.get();
      f.engine.submit(request.native);
    }
    if (is_cancelled) {
      toy::run(f.engine, 3);
      CHECK(order == std::vector<int32_t>{0, 1, 2});
      f.engine.end(0, LH_FINISH_CANCELLED, "");  // leaves a gap below the thoughts
      toy::run(f.engine, 1);
    } else {
      toy::run(f.engine);  // until the plain answer ends
    }
    toy::run(f.engine, 1);
    CHECK(order == std::vector<int32_t>{0, 1});
  }
}

TEST_CASE("a row that finds no memory before a thought is not replaced by a later row") {
  // The toy writes the first token of the marker, but not the second one.
  Thinking thinking;
  thinking.is_open = false;
  thinking.start = {fake::next(kHello), fake::kControl};
  const Tokens token = toy::tokens("ab");
  const Tokens parent = {-1, -1};
  const lh_score tree{sizeof(lh_score), 2, token.data(), parent.data()};
  for (const bool is_score : {true, false}) {
    INFO("score: ", is_score);
    Endless f;
    for (int64_t id = 1; id <= 2; ++id) {
      toy::Request request(id, kHello, 4);
      request.native.logprobs = 1;
      if (is_score) request.native.score = &tree;
      if (id == 1) request.native.thinking = thinking.get();
      f.engine.submit(request.native);
    }
    {
      const allocations::Failing failing(1, INT64_MAX, fake::kVocab * sizeof(float));
      toy::run(f.engine, 1);
      CHECK(failing.has_failed());
    }
    toy::run_all(f.engine);
    const lh_client_info info = f.engine.get(1);
    const lh_client_info plain = f.engine.get(2);
    CHECK(info.thinking == nullptr);
    CHECK(f.text(1) == f.text(2));
    REQUIRE(info.n_logprobs == plain.n_logprobs);
    for (int32_t i = 0; i < info.n_logprobs; ++i) {
      CHECK((info.logprobs[i] == plain.logprobs[i] ||
             (!is_score && std::isnan(info.logprobs[i]))));
    }
  }
}
