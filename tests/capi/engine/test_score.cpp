// Tests of scores: log-probabilities of continuations, compared with the toy model's.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <set>

#include "context.hpp"
#include "engine_fixture.hpp"
#include "guard.hpp"
#include "score.hpp"

namespace {

using Tokens = std::vector<int32_t>;

// Continuations as a tree; two continuations have separate nodes from their first
// different token on.
struct Tree {
  explicit Tree(const std::vector<Tokens>& continuations) {
    for (const Tokens& tokens : continuations) {
      int32_t at = -1;
      ends.emplace_back();
      for (const int32_t token : tokens) ends.back().push_back(at = child(at, token));
    }
    native = {sizeof(lh_score), static_cast<int32_t>(token.size()), token.data(),
              parent.data()};
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  int32_t child(int32_t of, int32_t which) {
    for (size_t k = 0; k < token.size(); ++k) {
      if (parent[k] == of && token[k] == which) return static_cast<int32_t>(k);
    }
    token.push_back(which);
    parent.push_back(of);
    return static_cast<int32_t>(token.size()) - 1;
  }

  Tokens token, parent;
  std::vector<Tokens> ends;  // nodes of each continuation
  lh_score native{};
};

toy::Request scoring(int64_t id, const Tokens& prompt, const Tree& tree) {
  toy::Request request(id, prompt, 40);
  request.native.score = &tree.native;
  request.native.sampling = nullptr;
  return request;
}

// Compares the engine's numbers for each continuation's tokens with the toy model's.
void check_scores(lh_engine& engine, int64_t id, const Tokens& prompt,
                  const std::vector<Tokens>& continuations, const Tree& tree) {
  const lh_client_info info = engine.get(id);
  INFO("message: ", info.message);
  REQUIRE(info.finish == LH_FINISH_EOG);
  CHECK(info.n_generated == 0);
  REQUIRE(info.n_scores == tree.native.n_nodes);
  for (size_t c = 0; c < continuations.size(); ++c) {
    Tokens before = prompt;
    for (size_t i = 0; i < continuations[c].size(); ++i) {
      const int32_t token = continuations[c][i];
      const double expected = fake::logprobs(before)[static_cast<size_t>(token)];
      CHECK(std::abs(info.scores[tree.ends[c][i]] - expected) < 2e-6);
      before.push_back(token);
    }
  }
}

const std::vector<Tokens> kLabels = {toy::tokens("a"),     toy::tokens("ab"),
                                     toy::tokens("abcd"),  toy::tokens("axyz"),
                                     toy::tokens("qrstu"), toy::tokens("q")};

void score_and_check(Fixture& f, const Tokens& prompt,
                     const std::vector<Tokens>& labels) {
  const Tree tree(labels);
  toy::submit(f.engine, scoring(1, prompt, tree));
  toy::run_all(f.engine);
  check_scores(f.engine, 1, prompt, labels, tree);
  f.engine.release(1);
}

std::vector<Tokens> random_labels(std::mt19937& random) {
  std::vector<Tokens> labels(1 + random() % 6);
  for (Tokens& label : labels) {
    label.resize(1 + random() % 7);
    for (int32_t& token : label) token = static_cast<int32_t>('a' + random() % 3);
  }
  return labels;
}

// Random trees run together with answers and prefixes; every number must be right.
void run_many(Fixture& f, uint32_t seed, bool with_answers) {
  std::mt19937 random(seed);
  std::vector<Tokens> prompts;
  std::vector<std::vector<Tokens>> labels;
  std::deque<Tree> trees;
  for (int64_t id = 0; id < 4; ++id) {
    prompts.emplace_back(1 + random() % 40, static_cast<int32_t>('A' + random() % 26));
    const bool generates = with_answers && id == 3;
    labels.push_back(random_labels(random));
    trees.emplace_back(labels.back());
    if (generates) {
      toy::submit(f.engine, toy::Request(id, prompts.back(), 12));
    } else {
      toy::submit(f.engine, scoring(id, prompts.back(), trees.back()));
    }
  }
  toy::run_all(f.engine);
  for (int64_t id = 0; id < 4; ++id) {
    const auto i = static_cast<size_t>(id);
    if (with_answers && id == 3) {
      CHECK(f.text(id) == fake::answer(prompts[i], 12));
    } else {
      check_scores(f.engine, id, prompts[i], labels[i], trees[i]);
    }
    f.engine.release(id);
  }
  CHECK(fake::n_cells_left() == 0);
}

}  // namespace

TEST_CASE("a score has the log-probability of each token of each continuation") {
  for (const bool unified : {true, false}) {
    Fixture f(512, 4, unified);
    score_and_check(f, kHello, kLabels);
    score_and_check(f, {7}, {toy::tokens("x")});
    CHECK(fake::n_cells_left() == 0);
  }
}

TEST_CASE("continuations of one token cost nothing beyond the prompt") {
  Fixture f;
  const Tree tree({toy::tokens("a"), toy::tokens("b"), toy::tokens("c")});
  toy::submit(f.engine, scoring(1, kHello, tree));
  toy::run_all(f.engine);
  CHECK(fake::counts().n_tokens == 5);
  CHECK(f.engine.get(1).n_prefill == 5);
  CHECK(f.engine.get(1).n_decode == 0);
}

TEST_CASE("what continuations begin with is decoded once, their last tokens never") {
  Fixture f;
  const Tree tree(kLabels);
  toy::submit(f.engine, scoring(1, kHello, tree));
  toy::run_all(f.engine);
  // a, ab, abc, ax, axy, q, qr, qrs, qrst
  CHECK(f.engine.get(1).n_prefill == 5);
  CHECK(f.engine.get(1).n_decode == 9);
}

TEST_CASE("a recurrent model's state is brought back for each path") {
  for (const bool fails : {false, true}) {  // if true, the prompt is computed again
    Fixture f(512, 4, true, true);
    fake::settings().fail_state = fails;
    score_and_check(f, kHello, kLabels);
    CHECK(fake::counts().n_states == 1);
  }
}

TEST_CASE("a window of attention never gives up what a path still needs") {
  Fixture f(1024, 4, false);
  fake::settings().n_swa = 8;
  fake::settings().strict_window = true;
  score_and_check(f, Tokens(20, 'x'), kLabels);
  // The continuations are longer than the rows of a batch, so the prompt's state is
  // saved.
  score_and_check(f, Tokens(20, 'x'), {Tokens(70, 'a'), Tokens(70, 'b')});
  for (uint32_t seed = 0; seed < 50; ++seed) run_many(f, seed, false);
}

TEST_CASE("a window of attention is whole where the rows of a choice are read again") {
  Fixture f(1024, 4, false);
  fake::settings().n_swa = 8;
  fake::settings().strict_window = true;
  for (int64_t id = 1; id <= 20; ++id) {
    const Tokens prompt(static_cast<size_t>(id), 'x');
    toy::Request request(id, prompt, 8);
    request.choose({"abc", "abd", "b", "cde"}).native.logprobs = 1;
    toy::submit(f.engine, request);
    toy::run_all(f.engine);
    const double first =
        fake::logprobs(prompt)[static_cast<size_t>(f.engine.get(id).tokens[0])];
    CHECK(f.engine.get(id).logprobs[0] == doctest::Approx(first));
  }
}

TEST_CASE("long continuations are decoded in pieces") {
  for (const bool unified : {true, false}) {
    Fixture f(2048, 4, unified);
    score_and_check(f, kHello, {Tokens(200, 'a'), toy::tokens("b"), Tokens(90, 'c')});
  }
}

TEST_CASE("a score has the most likely alternatives to each of its tokens") {
  for (const int32_t n_top : {0, 3}) {
    Fixture f;
    const Tree tree(kLabels);
    toy::Request request = scoring(1, kHello, tree);
    request.native.logprobs = 1 + n_top;
    toy::submit(f.engine, request);
    toy::run_all(f.engine);
    check_scores(f.engine, 1, kHello, kLabels, tree);
    const lh_client_info info = f.engine.get(1);
    REQUIRE(info.n_logprobs == tree.native.n_nodes);
    REQUIRE(info.n_top == n_top);
    for (int32_t k = 0; k < info.n_logprobs; ++k) {
      Tokens before = kHello;
      Tokens path;
      for (int32_t at = tree.parent[static_cast<size_t>(k)]; at >= 0;
           at = tree.parent[static_cast<size_t>(at)]) {
        path.push_back(tree.token[static_cast<size_t>(at)]);
      }
      before.insert(before.end(), path.rbegin(), path.rend());
      const std::vector<double> expected = fake::logprobs(before);
      CHECK(info.logprobs[k] == info.scores[k]);
      REQUIRE(info.ranks != nullptr);
      const double logprob =
          expected[static_cast<size_t>(tree.token[static_cast<size_t>(k)])];
      const auto count_above = [&expected](double limit) {
        return std::count_if(expected.begin(), expected.end(),
                             [limit](double value) { return value > limit; });
      };
      CHECK(info.ranks[k] >= 1 + count_above(logprob + 2e-6));
      CHECK(info.ranks[k] <= count_above(logprob - 2e-6));
      double last = 0.0;
      for (int32_t i = k * n_top; i < (k + 1) * n_top; ++i) {
        const auto token = static_cast<size_t>(info.top_tokens[i]);
        CHECK(std::abs(info.top_logprobs[i] - expected[token]) < 2e-6);
        CHECK(info.top_logprobs[i] <= last);
        last = info.top_logprobs[i];
      }
      if (n_top == 0) continue;
      const double most = *std::max_element(expected.begin(), expected.end());
      CHECK(std::abs(info.top_logprobs[k * n_top] - most) < 2e-6);
    }
    f.engine.release(1);
  }
}

TEST_CASE("scores run beside each other and beside answers") {
  for (const bool unified : {true, false}) {
    Fixture f(1024, 4, unified);
    for (uint32_t seed = 0; seed < 100; ++seed) run_many(f, seed, seed % 2 == 0);
  }
}

TEST_CASE("a score forks from a prefix, is paused and resumed, and is right") {
  for (const bool recurrent : {false, true}) {
    Fixture f(512, 4, true, recurrent);
    const Tree tree(kLabels);
    toy::submit(f.engine, toy::Request(1, toy::tokens("hell"), 0));
    toy::run_all(f.engine);
    toy::submit(f.engine, scoring(2, kHello, tree).fork_from(1));
    for (int i = 0; i < 3; ++i) {
      toy::run(f.engine, 1);
      f.engine.pause(2);
      f.engine.resume(2);
    }
    toy::run_all(f.engine);
    check_scores(f.engine, 2, kHello, kLabels, tree);
    CHECK(f.engine.get(2).n_reused == 4);
  }
}

TEST_CASE("a score of a prompt that is held whole computes no more of it") {
  for (const bool unified : {true, false}) {
    Fixture f(512, 4, unified);
    const Tree tree(kLabels);
    toy::Request whole(1, kHello, 0);
    whole.native.whole = 1;
    f.engine.submit(whole.native);
    toy::run_all(f.engine);
    toy::submit(f.engine, scoring(2, kHello, tree).fork_from(1));
    toy::run_all(f.engine);
    check_scores(f.engine, 2, kHello, kLabels, tree);
    CHECK(f.engine.get(2).n_reused == 5);
    CHECK(f.engine.get(2).n_prefill == 0);
  }
}

TEST_CASE("a refused batch leaves a score where it was") {
  for (const bool recurrent : {false, true}) {
    Fixture f(512, 4, true, recurrent);
    const Tree tree(kLabels);
    toy::submit(f.engine, scoring(1, kHello, tree));
    fake::settings().fault = [](int64_t n, const std::vector<int32_t>&) {
      return n % 4 == 0 ? fake::Fault::kFatal : fake::Fault::kNone;
    };
    for (int i = 0; i < 200; ++i) toy::run(f.engine);
    check_scores(f.engine, 1, kHello, kLabels, tree);
  }
}

TEST_CASE("a row that is none, or no numbers, fails its score alone") {
  for (const auto fault : {fake::Fault::kNan, fake::Fault::kNull}) {
    Fixture f(512, 4, false);
    const Tree tree(kLabels);
    toy::submit(f.engine, scoring(1, kHello, tree));
    int64_t n = 0;
    fake::settings().fault = [&](int64_t, const std::vector<int32_t>&) {
      return ++n == 4 ? fault : fake::Fault::kNone;
    };
    toy::run_all(f.engine);
    CHECK(f.engine.get(1).finish == LH_FINISH_ERROR);
    CHECK(std::string(f.engine.get(1).message).find("logits") != std::string::npos);
    CHECK(fake::n_cells_left() == 0);
    toy::submit(f.engine, scoring(2, kHello, tree));
    toy::run_all(f.engine);
    check_scores(f.engine, 2, kHello, kLabels, tree);
  }
}

TEST_CASE("scores in a deterministic engine have rows of one shape") {
  Fixture f(toy::deterministic_params(256, 8));
  fake::settings().uniform_rows = lh::kUniformRows;
  std::deque<Tree> trees;
  for (int64_t id = 0; id < 4; ++id) {
    trees.emplace_back(kLabels);
    toy::submit(f.engine,
                scoring(id, Tokens(static_cast<size_t>(5 + 9 * id), 'x'), trees.back()));
  }
  toy::run_all(f.engine);
  for (int64_t id = 0; id < 4; ++id) {
    check_scores(f.engine, id, Tokens(static_cast<size_t>(5 + 9 * id), 'x'), kLabels,
                 trees[static_cast<size_t>(id)]);
  }
}

TEST_CASE("what is no tree, or has no room, is refused") {
  Fixture f(64, 1);
  const Tree good(kLabels);
  Tokens token = good.token;
  Tokens parent = good.parent;
  lh_score tree{sizeof(lh_score), static_cast<int32_t>(token.size()), token.data(),
                parent.data()};
  toy::Request request(1, kHello, 4);
  request.native.score = &tree;
  const auto refused = [&] {
    CHECK_THROWS_AS(f.engine.submit(request.native), lh::Error);
    token = good.token;
    parent = good.parent;
    tree = {sizeof(lh_score), static_cast<int32_t>(token.size()), token.data(),
            parent.data()};
  };
  token[2] = fake::kVocab;
  refused();
  token[0] = -1;
  refused();
  parent[1] = 1;
  refused();
  parent[0] = -2;
  refused();
  tree.n_nodes = 0;
  refused();
  tree.token = nullptr;
  refused();
  request.native.max_tokens = 0;
  refused();
  const Tree longer({Tokens(2000, 'a')});
  CHECK_THROWS_AS(f.engine.submit(scoring(1, kHello, longer).native), lh::Error);
}

TEST_CASE("a score that is ended midway gives its cells back") {
  Fixture f;
  const Tree tree(kLabels);
  toy::submit(f.engine, scoring(1, kHello, tree));
  toy::run(f.engine, 2);
  f.engine.end(1, LH_FINISH_CANCELLED, "");
  CHECK(f.engine.get(1).finish == LH_FINISH_CANCELLED);
  CHECK(fake::n_cells_left() == 0);
}

TEST_CASE("an answer's log-probabilities are the model's own, whatever is drawn from") {
  for (const bool drafts : {false, true}) {
    Fixture f;
    fake::settings().repeat_share = 0.9;
    fake::settings().eos_share = 0;
    toy::Request request(1, kHello, 30);
    request.sampling.penalty_repeat = 1.3F;
    request.sampling.repeat_last_n = drafts ? 0 : -1;
    const int32_t biased = 'z';
    const float value = 0.1F;
    request.sampling.n_logit_bias = 1;
    request.sampling.logit_bias_token = &biased;
    request.sampling.logit_bias_value = &value;
    request.sampling.temperature = drafts ? 0.0F : 0.8F;
    request.native.logprobs = 1 + 3;
    request.native.draft = drafts ? 1 : 0;
    f.engine.submit(request.native);
    toy::run_all(f.engine);
    const lh_client_info info = f.engine.get(1);
    CHECK((info.n_draft > 0) == drafts);
    REQUIRE(info.n_logprobs == info.n_generated);
    REQUIRE(info.n_top == 3);
    Tokens before = kHello;
    for (int32_t i = 0; i < info.n_generated; ++i) {
      const std::vector<double> expected = fake::logprobs(before);
      const auto at = [&](int32_t token) { return expected[static_cast<size_t>(token)]; };
      CHECK(std::abs(info.logprobs[i] - at(info.tokens[i])) < 2e-6);
      const auto best = std::max_element(expected.begin(), expected.end());
      CHECK(info.top_tokens[i * 3] == best - expected.begin());
      for (int32_t k = 0; k < 3; ++k) {
        const double top = info.top_logprobs[i * 3 + k];
        CHECK(std::abs(top - at(info.top_tokens[i * 3 + k])) < 2e-6);
        if (k > 0) CHECK(top <= info.top_logprobs[i * 3 + k - 1]);
      }
      before.push_back(info.tokens[i]);
    }
  }
}

TEST_CASE("each row of a batch has its own reader, because threads read them at once") {
  // Records the readers of its rows.
  class Rows final : public lh::Task {
   public:
    explicit Rows(std::vector<const lh::LogitRow*>& readers)
        : Task(Kind::kScore), readers_(readers) {}
    void read(lh::Client&, int32_t, float*, lh::LogitRow& row) noexcept override {
      readers_.push_back(&row);
    }
    void settle(const lh::StepServices&, lh::BatchPart& part,
                lh::LogitRow& row) override {
      n_settled_ += static_cast<size_t>(part.n_rows);
      if (part.n_rows > 0) CHECK(&row == readers_[n_settled_ - 1]);
    }

   private:
    std::vector<const lh::LogitRow*>& readers_;
    size_t n_settled_ = 0;
  };
  fake::reset();
  const std::unique_ptr<lh_model> model = toy::model();
  std::atomic<bool> abort{false};
  lh::Statistics statistics;
  lh::Stage stage(*model, toy::engine_params(256, 4, true), &abort, statistics);
  std::vector<const lh::LogitRow*> readers;
  lh::Client client;
  client.task = std::make_unique<Rows>(readers);
  std::vector<lh::BatchPart> parts;
  for (const int32_t n_rows : {3, 0, 1, 60}) {
    parts.push_back({&client, std::max(1, n_rows)});
    parts.back().n_rows = n_rows;
  }
  stage.sampler.sample(parts);
  REQUIRE(readers.size() == 64);
  CHECK(std::set<const lh::LogitRow*>(readers.begin(), readers.end()).size() == 64);
}
