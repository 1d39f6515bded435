// Tree of token sequences; sequences with the same beginning share nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lh {

class TokenTree {
 public:
  static constexpr int32_t kRoot = -1;  // parent of the first token of all sequences

  // Nodes in increasing order.
  struct Nodes {
    const int32_t* first;
    const int32_t* last;
    const int32_t* begin() const { return first; }
    const int32_t* end() const { return last; }
    size_t size() const { return static_cast<size_t>(last - first); }
  };

  // Copies int32[n_nodes] each: tokens, and parents, which come before their children.
  // Throws Error (LH_INVALID_ARGUMENT) with the name of the arrays unless all tokens are
  // in the vocabulary and the parents form a tree.
  TokenTree(const std::string& name, int32_t n_nodes, const int32_t* tokens,
            const int32_t* parents, int32_t n_vocab);

  size_t size() const { return tokens_.size(); }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  const std::vector<int32_t>& parents() const { return parents_; }
  int32_t token(int32_t node) const { return tokens_[static_cast<size_t>(node)]; }
  int32_t parent(int32_t node) const { return parents_[static_cast<size_t>(node)]; }

  Nodes children(int32_t node) const {
    const auto slot = static_cast<size_t>(node) + 1;
    return {children_.data() + first_child_[slot],
            children_.data() + first_child_[slot + 1]};
  }
  bool is_leaf(int32_t node) const { return children(node).size() == 0; }
  // Returns the child of a node with the token; kRoot if there is none.
  int32_t child(int32_t node, int32_t token) const;
  // Returns the node and all nodes before it, the first one last.
  std::vector<int32_t> path_up(int32_t node) const;

 private:
  std::vector<int32_t> tokens_;
  std::vector<int32_t> parents_;
  // children of the root, then of nodes 0, 1, ..., and the start of each of these lists
  std::vector<int32_t> children_;
  std::vector<int32_t> first_child_;
};

}  // namespace lh
