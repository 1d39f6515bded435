// Tests of the tree of prefixes that prompts share.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "prefix_tree.hpp"

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

// Returns the number of decoded tokens if every node is computed once and forked.
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

// Returns the minimum number of decoded tokens: distinct prefixes, and the last token of
// every prompt.
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

TEST_CASE("a prefix that is worth a fork is longer where a fork copies more") {
  CHECK(lh::min_prefix_tokens(0) == 8);
  CHECK(lh::min_prefix_tokens(8 * 64 + 63) == 8);
  CHECK(lh::min_prefix_tokens(9 * 64) == 9);
  CHECK(lh::min_prefix_tokens(INT64_C(1) << 40) == INT32_MAX);
}
