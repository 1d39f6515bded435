// The small parts: text, prefixes, seeds, sequences, prompts.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "guard.hpp"
#include "log.hpp"
#include "prefix_tree.hpp"
#include "prompt.hpp"
#include "seed.hpp"
#include "sequences.hpp"
#include "text.hpp"
#include "toy.hpp"

using lh::TextBuffer;

namespace {

std::string valid(const std::string& bytes) {
  std::string out;
  lh::append_valid_utf8(out, bytes);
  return out;
}

const std::string kBad = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

TEST_CASE("ill-formed UTF-8 becomes U+FFFD, well-formed stays") {
  CHECK(valid("plain") == "plain");
  CHECK(valid("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80") ==
        "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  CHECK(valid("a\x80z") == "a" + kBad + "z");                     // lone continuation
  CHECK(valid("\xC0\xAF") == kBad + kBad);                        // overlong
  CHECK(valid("\xED\xA0\x80") == kBad + kBad + kBad);             // surrogate
  CHECK(valid("\xF4\x90\x80\x80") == kBad + kBad + kBad + kBad);  // past U+10FFFF
  CHECK(valid("\xE2\x82") == kBad);                               // cut
  CHECK(valid(std::string("a\0b", 3)) == std::string("a\0b", 3));
}

TEST_CASE("a character cut at the end is waited for, then dropped") {
  TextBuffer text;
  CHECK_FALSE(text.append("ok \xF0\x9F"));
  CHECK(text.text() == "ok ");
  CHECK_FALSE(text.append("\x98"));
  CHECK(text.text() == "ok ");
  CHECK_FALSE(text.append("\x80"));
  CHECK(text.text() == "ok \xF0\x9F\x98\x80");
  text.append("\xE2\x82");
  text.finish();
  CHECK(text.text() == "ok \xF0\x9F\x98\x80");
}

TEST_CASE("bytes that can never become a character are not waited for") {
  TextBuffer text;
  text.append("a\xFF");
  CHECK(text.text() == "a" + kBad);
  text.append("\xE2z");
  CHECK(text.text() == "a" + kBad + kBad + "z");
}

TEST_CASE("a stop text is found across tokens and cut off") {
  TextBuffer text({"STOP"});
  CHECK_FALSE(text.append("one ST"));
  CHECK(text.n_stable() == 4);
  CHECK_FALSE(text.append("O"));
  CHECK(text.append("P and more"));
  CHECK(text.text() == "one ");
  CHECK(text.n_stable() == 4);
}

TEST_CASE("the earliest of several stop texts counts, also when they overlap") {
  TextBuffer text({"bcd", "abc"});
  CHECK(text.append("xxabcd"));
  CHECK(text.text() == "xx");
  TextBuffer nested({"\n\n", "\n"});
  CHECK(nested.append("line\n\n"));
  CHECK(nested.text() == "line");
}

TEST_CASE(
    "a stop text of several bytes is found when a token ends inside its character") {
  TextBuffer text({"\xE2\x82\xAC"});
  CHECK_FALSE(text.append("5 \xE2"));
  CHECK_FALSE(text.append("\x82"));
  CHECK(text.append("\xAC!"));
  CHECK(text.text() == "5 ");
}

TEST_CASE("text that is held back for a stop text is released") {
  TextBuffer text({"aab"});
  text.append("aa");
  CHECK(text.n_stable() == 0);
  text.append("a");
  CHECK(text.n_stable() == 1);
  text.append("c");
  CHECK(text.n_stable() == 4);
  text.append("a");
  text.finish();
  CHECK(text.n_stable() == 5);
}

TEST_CASE("error messages are cut between characters") {
  lh_error error;
  std::string longest(1022, 'x');
  lh::set_error(&error, LH_INTERNAL, (longest + "\xE2\x82\xAC").c_str());
  CHECK(std::string(error.message) == longest);
  CHECK(lh::set_error(nullptr, LH_NO_SPACE, "no room for a message") == LH_NO_SPACE);
}

TEST_CASE("guard turns every exception into a status") {
  lh_error error;
  CHECK(lh::guard(&error, [] { throw lh::Error(LH_NOT_FOUND, "gone"); }) == LH_NOT_FOUND);
  CHECK(std::string(error.message) == "gone");
  CHECK(lh::guard(&error, [] { throw std::bad_alloc(); }) == LH_INTERNAL);
  CHECK(std::string(error.message) == "out of memory");
  CHECK(lh::guard(&error, [] { throw std::runtime_error("what"); }) == LH_INTERNAL);
  CHECK(lh::guard(&error, [] { throw 7; }) == LH_INTERNAL);
  CHECK(lh::guard(&error, [] {}) == LH_OK);
  CHECK(std::string(error.message).empty());
}

TEST_CASE("seeds differ by client and by call, and do not change") {
  std::set<uint32_t> seen;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    for (uint64_t i = 0; i < 500; ++i) seen.insert(lh::derive_seed(seed, i));
  }
  CHECK(seen.size() > 9990);  // 10,000 draws of 32 bits: a collision is rare
  CHECK(lh::derive_seed(1234, 0) == lh_derive_seed(1234, 0));
  CHECK(lh::derive_seed(1234, 0) == 222137639U);  // results depend on it: never change
}

// ---- prefix tree ----

namespace {

using Prompts = std::vector<std::vector<int32_t>>;

lh::PrefixTree tree_of(const Prompts& prompts, int32_t min_tokens) {
  std::vector<int32_t> tokens;
  std::vector<int64_t> offsets = {0};
  for (const auto& p : prompts) {
    tokens.insert(tokens.end(), p.begin(), p.end());
    offsets.push_back(static_cast<int64_t>(tokens.size()));
  }
  return lh::build_prefix_tree(tokens.data(), offsets.data(),
                               static_cast<int32_t>(prompts.size()), min_tokens);
}

// Tokens decoded if every node is computed once and forked.
size_t cost(const lh::PrefixTree& tree, const Prompts& prompts) {
  size_t total = 0;
  for (size_t k = 0; k < tree.node_length.size(); ++k) {
    const int32_t parent = tree.node_parent[k];
    total += static_cast<size_t>(
        tree.node_length[k] -
        (parent < 0 ? 0 : tree.node_length[static_cast<size_t>(parent)]));
  }
  for (size_t i = 0; i < prompts.size(); ++i) {
    const int32_t node = tree.node_of[i];
    total +=
        prompts[i].size() -
        (node < 0 ? 0 : static_cast<size_t>(tree.node_length[static_cast<size_t>(node)]));
  }
  return total;
}

// The least that can be decoded: distinct prefixes, and every prompt's own last token.
size_t least_cost(const Prompts& prompts) {
  std::set<std::vector<int32_t>> prefixes;
  size_t last_tokens = 0;
  for (const auto& p : prompts) {
    if (p.empty()) continue;
    ++last_tokens;
    for (size_t n = 1; n < p.size(); ++n) prefixes.insert({p.begin(), p.begin() + n});
  }
  return prefixes.size() + last_tokens;
}

}  // namespace

TEST_CASE("the tree of a codebook and of documents with questions") {
  const Prompts prompts = {
      {1, 2, 3, 4, 5}, {9, 9}, {1, 2, 3, 7}, {1, 2, 8}, {1, 2, 3, 4, 6}};
  const lh::PrefixTree tree = tree_of(prompts, 1);
  CHECK(tree.node_length == std::vector<int32_t>{2, 3, 4});
  CHECK(tree.node_parent == std::vector<int32_t>{-1, 0, 1});
  CHECK(tree.node_of == std::vector<int32_t>{2, -1, 1, 0, 2});
  CHECK(tree.order == std::vector<int32_t>{0, 4, 2, 3, 1});
}

TEST_CASE("identical prompts share all but their last token") {
  const lh::PrefixTree tree = tree_of({{1, 2, 3}, {1, 2, 3}, {1, 2, 3}}, 1);
  CHECK(tree.node_length == std::vector<int32_t>{2});
  CHECK(tree.node_of == std::vector<int32_t>{0, 0, 0});
}

TEST_CASE("no prompts, empty prompts, one prompt") {
  CHECK(tree_of({}, 1).order.empty());
  CHECK(tree_of({{}, {}, {1}}, 1).node_length.empty());
  CHECK(tree_of({{1, 2, 3}}, 1).node_of == std::vector<int32_t>{-1});
}

TEST_CASE("random prompts: nodes are right and nothing is computed twice") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    Prompts prompts(random() % 30);
    for (auto& p : prompts) {
      p.resize(random() % 12);
      for (auto& token : p) token = static_cast<int32_t>(random() % 3);
    }
    CHECK(cost(tree_of(prompts, 1), prompts) == least_cost(prompts));

    const int32_t min_tokens = 1 + static_cast<int32_t>(random() % 4);
    const lh::PrefixTree tree = tree_of(prompts, min_tokens);
    std::vector<int32_t> order = tree.order;
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i < order.size(); ++i) CHECK(order[i] == static_cast<int32_t>(i));
    std::map<int32_t, int> children;
    for (size_t k = 0; k < tree.node_length.size(); ++k) {
      const int32_t parent = tree.node_parent[k];
      CHECK(parent < static_cast<int32_t>(k));
      ++children[parent];
      const int32_t above =
          parent < 0 ? 0 : tree.node_length[static_cast<size_t>(parent)];
      CHECK(tree.node_length[k] - above >= min_tokens);
    }
    for (size_t i = 0; i < prompts.size(); ++i) {
      const int32_t node = tree.node_of[i];
      ++children[node];
      if (node < 0) continue;
      const auto k = static_cast<size_t>(node);
      const auto n = tree.node_length[k];
      const auto& model = prompts[static_cast<size_t>(tree.node_prompt[k])];
      CHECK(n < static_cast<int32_t>(prompts[i].size()));
      CHECK(std::equal(model.begin(), model.begin() + n, prompts[i].begin()));
    }
    for (size_t k = 0; k < tree.node_length.size(); ++k) {
      CHECK(children[static_cast<int32_t>(k)] >= 2);
    }
  }
}

// ---- sequences ----

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
  pool.release(1);  // twice is harmless
  CHECK(pool.n_used() == 2);
  CHECK(pool.acquire() == 1);
  llama_free(ctx);
}

// ---- prompts ----

TEST_CASE("special tokens are parsed as the text looks, or as asked") {
  const auto model = toy::model();
  using Tokens = std::vector<int32_t>;
  const int32_t lt = '<';
  CHECK(lh::tokenize_prompt(*model, "a", -1) == Tokens{fake::kBos, 'a'});
  CHECK(lh::tokenize_prompt(*model, "<|x|>a", -1) ==
        Tokens{fake::kBos, fake::kControl, 'a'});
  CHECK(lh::tokenize_prompt(*model, "<|x|>", 0).size() == 6);
  CHECK(lh::tokenize_prompt(*model, "a<|x|>", -1)[2] == lt);
  CHECK(lh::tokenize_prompt(*model, "a<|x|>", 1) ==
        Tokens{fake::kBos, 'a', fake::kControl});
  // A BOS that the template wrote is not doubled.
  CHECK(lh::tokenize_prompt(*model, "<s>a", -1) == Tokens{fake::kBos, 'a'});
  CHECK_THROWS_AS(lh::tokenize_prompt(*model, "a", 2), lh::Error);
  CHECK(lh::tokenize_prompt(*model, "", -1) == Tokens{fake::kBos});
}

TEST_CASE("a document that contains special tokens stays a document") {
  const auto model = toy::model();
  const std::string open = "\xEF\xB7\x90";
  const std::string close = "\xEF\xB7\x91";
  CHECK(lh::mark_literals(*model, "plain < text") == "plain < text");
  CHECK(lh::mark_literals(*model, "a<|x|>b") == "a" + open + "<|x|>" + close + "b");
  CHECK(lh::mark_literals(*model, open + close) == kBad + kBad);

  const std::string prompt = "<|x|>" + lh::mark_literals(*model, "say <|x|>!") + "<|x|>";
  const auto tokens = lh::tokenize_prompt(*model, prompt, -1);
  CHECK(std::count(tokens.begin(), tokens.end(), fake::kControl) == 2);
  std::vector<int32_t> expected = {fake::kBos, fake::kControl};
  for (const char c : std::string("say <|x|>!")) expected.push_back(c);
  expected.push_back(fake::kControl);
  CHECK(tokens == expected);
  // An opening mark that is never closed protects what follows.
  CHECK(lh::tokenize_prompt(*model, open + "<|x|>", -1).size() == 6);
}

TEST_CASE("the log keeps libllama's lines instead of printing them") {
  lh::backend_init(false);
  lh::log_drain(1 << 20);
  const lh::LogMark mark;
  ggml_log_callback callback = nullptr;
  void* data = nullptr;
  llama_log_get(&callback, &data);
  callback(GGML_LOG_LEVEL_INFO, "chatter\n", data);
  CHECK(mark.first_problem().empty());
  callback(GGML_LOG_LEVEL_ERROR, "it broke", data);
  callback(GGML_LOG_LEVEL_CONT, " badly\n", data);
  CHECK(mark.first_problem() == "it broke badly");
  CHECK(lh::log_drain(4).empty());
  CHECK(lh::log_drain(1 << 20) == "chatter\nit broke badly\n");
  for (int i = 0; i < 1000; ++i) callback(GGML_LOG_LEVEL_WARN, "again\n", data);
  CHECK(lh::log_drain(1 << 20).size() == 256 * 6);
}
