#include "token_tree.hpp"

#include <algorithm>

#include "guard.hpp"

namespace lh {

TokenTree::TokenTree(const std::string& name, int32_t n_nodes, const int32_t* tokens,
                     const int32_t* parents, int32_t n_vocab) {
  require_range(("n_nodes of " + name).c_str(), n_nodes, 1, 16'777'216);
  deref(tokens, (name + " token").c_str());
  deref(parents, (name + " parent").c_str());
  const auto is_good = [&](int32_t k) {
    return tokens[k] >= 0 && tokens[k] < n_vocab && parents[k] >= kRoot && parents[k] < k;
  };
  int32_t n_good = 0;
  while (n_good < n_nodes && is_good(n_good)) ++n_good;
  if (n_good < n_nodes) {
    const std::string which = "[" + std::to_string(n_good) + "]";
    require_range((name + " token" + which).c_str(), tokens[n_good], 0, n_vocab - 1);
    require_range((name + " parent" + which).c_str(), parents[n_good], kRoot, n_good - 1);
  }
  const auto n = static_cast<size_t>(n_nodes);
  tokens_.assign(tokens, tokens + n);
  parents_.assign(parents, parents + n);
  first_child_.assign(n + 2, 0);
  for (const int32_t parent : parents_) ++first_child_[static_cast<size_t>(parent) + 2];
  for (size_t k = 1; k < first_child_.size(); ++k) first_child_[k] += first_child_[k - 1];
  std::vector<int32_t> end(first_child_.begin(), first_child_.end() - 1);
  children_.resize(n);
  for (int32_t k = 0; k < n_nodes; ++k) {
    children_[static_cast<size_t>(end[static_cast<size_t>(parent(k)) + 1]++)] = k;
  }
}

int32_t TokenTree::child(int32_t node, int32_t token) const {
  const Nodes nodes = children(node);
  const auto* place = std::find_if(nodes.begin(), nodes.end(), [&](int32_t child) {
    return this->token(child) == token;
  });
  return place == nodes.end() ? kRoot : *place;
}

std::vector<int32_t> TokenTree::path_up(int32_t node) const {
  std::vector<int32_t> path;
  for (; node != kRoot; node = parent(node)) path.push_back(node);
  return path;
}

}  // namespace lh
