#include "score.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <string>

#include "guard.hpp"
#include "log_softmax.hpp"

namespace lh {
namespace {

constexpr int32_t kPrompt = -1;  // parent of the first token of a continuation

// Index of a node's children; the prompt's children come first.
size_t slot_of(int32_t node) { return static_cast<size_t>(node) + 1; }

void check(const lh_score& tree, int32_t n_vocab) {
  require_range("n_nodes", tree.n_nodes, 1, 16'777'216);
  deref(tree.token, "score token");
  deref(tree.parent, "score parent");
  for (int32_t k = 0; k < tree.n_nodes; ++k) {
    const std::string which = "[" + std::to_string(k) + "]";
    require_range(("score token" + which).c_str(), tree.token[k], 0, n_vocab - 1);
    require_range(("score parent" + which).c_str(), tree.parent[k], kPrompt, k - 1);
  }
}

// Rank of a token in a row, from 1: tokens with equal logits in order of their index.
int32_t rank_of(const float* logits, int32_t n_vocab, int32_t token) {
  const float logit = logits[token];
  const auto n_more = std::count_if(logits, logits + n_vocab,
                                    [logit](float other) { return other > logit; });
  const auto n_equal = std::count(logits, logits + token, logit);
  return static_cast<int32_t>(n_more + n_equal) + 1;
}

}  // namespace

Score::Score(const lh_score& tree, int32_t n_vocab) : n_vocab_(n_vocab) {
  check(tree, n_vocab);
  const auto n = static_cast<size_t>(tree.n_nodes);
  tokens_.assign(tree.token, tree.token + n);
  parents_.assign(tree.parent, tree.parent + n);
  logprobs_.assign(n, std::nan(""));
  // Children of the prompt, then children of nodes 0, 1, ...
  first_child_.assign(n + 2, 0);
  for (const int32_t parent : parents_) ++first_child_[static_cast<size_t>(parent) + 2];
  for (size_t k = 1; k < first_child_.size(); ++k) first_child_[k] += first_child_[k - 1];
  std::vector<int32_t> end(first_child_.begin(), first_child_.end() - 1);
  children_.resize(n);
  for (int32_t k = 0; k < tree.n_nodes; ++k) {
    const auto slot = slot_of(parents_[static_cast<size_t>(k)]);
    children_[static_cast<size_t>(end[slot]++)] = k;
  }
  // Traverses depth first, without recursion, because a continuation may be long.
  std::vector<std::pair<int32_t, int32_t>> open{{kPrompt, 0}};  // nodes with their depth
  while (!open.empty()) {
    const auto [node, depth] = open.back();
    open.pop_back();
    const auto slot = slot_of(node);
    if (first_child_[slot] == first_child_[slot + 1]) continue;
    if (node != kPrompt) {
      has_branches_ =
          has_branches_ ||
          (!order_.empty() && order_.back() != parents_[static_cast<size_t>(node)]);
      order_.push_back(node);
    }
    depth_ = std::max(depth_, depth);
    for (int32_t i = first_child_[slot + 1]; i-- > first_child_[slot];) {
      open.emplace_back(children_[static_cast<size_t>(i)], depth + 1);
    }
  }
}

Score::Score(const lh_score& tree, int32_t n_vocab, const std::vector<int32_t>& ends)
    : Score(tree, n_vocab) {
  ends_ = ends;
}

int32_t Score::node_of_row(int32_t row) const {
  return row == 0 ? kPrompt : path_[static_cast<size_t>(row) - 1];
}

int32_t Score::path_token(int32_t i) const {
  return tokens_[static_cast<size_t>(path_[static_cast<size_t>(i)])];
}

void Score::keep_top(int32_t n) {
  n_top_ = std::min(n, n_vocab_);
  const size_t n_all = tokens_.size() * static_cast<size_t>(n_top_);
  top_tokens_.assign(n_all, -1);
  top_.assign(n_all, std::nan(""));
  ranks_.assign(tokens_.size(), 0);
}

// Returns false if memory is insufficient.
bool Score::read_top(size_t slot, const float* logits, double log_sum, LogitRow& reader) {
  try {
    std::vector<llama_token_data> highest;
    reader.find(logits);
    reader.take_top_k(n_top_, highest);
    for (int32_t i = first_child_[slot]; i < first_child_[slot + 1]; ++i) {
      const auto child = static_cast<size_t>(children_[static_cast<size_t>(i)]);
      size_t at = child * static_cast<size_t>(n_top_);
      for (const llama_token_data& candidate : highest) {
        top_tokens_[at] = candidate.id;
        top_[at++] = static_cast<double>(candidate.logit) - log_sum;
      }
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void Score::read(int32_t row, const float* logits, LogitRow& reader) noexcept {
  const auto slot = slot_of(node_of_row(row));
  double log_sum = logits == nullptr ? std::nan("") : log_sum_exp(logits, n_vocab_);
  if (n_top_ > 0 && !std::isnan(log_sum) && !read_top(slot, logits, log_sum, reader)) {
    log_sum = std::nan("");
  }
  for (int32_t i = first_child_[slot]; i < first_child_[slot + 1]; ++i) {
    const auto child = static_cast<size_t>(children_[static_cast<size_t>(i)]);
    logprobs_[child] = std::isnan(log_sum)
                           ? log_sum
                           : static_cast<double>(logits[tokens_[child]]) - log_sum;
    if (n_top_ >= 0 && !std::isnan(log_sum)) {
      ranks_[child] = rank_of(logits, n_vocab_, tokens_[child]);
    }
  }
}

bool Score::count_rows(int32_t n_rows) {
  bool is_good = true;
  for (int32_t row = n_read_; row < n_read_ + n_rows; ++row) {
    const auto slot = slot_of(node_of_row(row));
    const auto child =
        static_cast<size_t>(children_[static_cast<size_t>(first_child_[slot])]);
    is_good = is_good && !std::isnan(logprobs_[child]);
  }
  n_read_ += n_rows;
  return is_good;
}

bool Score::is_path_read() const { return n_read_ == n_path() + 1; }

// Returns the log-probability that the continuation ends at the node.
double Score::end_logprob(size_t node) const {
  constexpr double kLeastRest = 1e-7;  // smallest remainder that is larger than rounding
                                       // errors
  double rest = 1.0;
  for (int32_t i = first_child_[node + 1]; i < first_child_[node + 2]; ++i) {
    rest -= std::exp(logprobs_[static_cast<size_t>(children_[static_cast<size_t>(i)])]);
  }
  return std::log(std::max(rest, kLeastRest));
}

// Returns the most probable node from which a continuation may be more probable than the
// best one found so far; kPrompt if there is none. A continuation is never more probable
// than its beginning.
int32_t Score::open_node() {
  const size_t n = tokens_.size();
  std::vector<double> sums(n);
  double best = -std::numeric_limits<double>::infinity();
  double highest = best;
  int32_t open = kPrompt;
  best_ = kPrompt;
  for (size_t k = 0; k < n; ++k) {
    const int32_t parent = parents_[k];
    sums[k] = logprobs_[k] + (parent < 0 ? 0.0 : sums[static_cast<size_t>(parent)]);
    if (std::isnan(sums[k])) continue;
    const bool is_inner = has_children(k);
    const bool is_read =
        !is_inner || !std::isnan(logprobs_[static_cast<size_t>(
                         children_[static_cast<size_t>(first_child_[k + 1])])]);
    if (!is_read) {
      if (open == kPrompt || sums[k] > highest) {
        highest = sums[k];
        open = static_cast<int32_t>(k);
      }
      continue;
    }
    if (ends_[k] < 0) continue;
    const double whole = sums[k] + (is_inner ? end_logprob(k) : 0.0);
    if (best_ == kPrompt || whole > best) {
      best = whole;
      best_ = static_cast<int32_t>(k);
    }
  }
  return best_ == kPrompt || highest > best ? open : kPrompt;
}

int32_t Score::next_sought() {
  const int32_t open = open_node();
  if (open == kPrompt) return -1;
  std::vector<int32_t> path;
  for (int32_t at = open; at != kPrompt; at = parents_[static_cast<size_t>(at)]) {
    path.push_back(at);
  }
  std::reverse(path.begin(), path.end());
  // Nodes without alternatives are decoded together with their parent.
  for (auto k = static_cast<size_t>(open);;) {
    const auto first = static_cast<size_t>(first_child_[k + 1]);
    if (first + 1 != static_cast<size_t>(first_child_[k + 2])) break;
    k = static_cast<size_t>(children_[first]);
    if (!has_children(k)) break;
    path.push_back(static_cast<int32_t>(k));
  }
  size_t n_kept = 0;
  while (n_kept < std::min(path.size(), path_.size()) && path[n_kept] == path_[n_kept]) {
    ++n_kept;
  }
  path_ = std::move(path);
  n_read_ = static_cast<int32_t>(n_kept) + 1;
  return way_.from_prompt ? 0 : static_cast<int32_t>(n_kept);
}

int32_t Score::next_path() {
  if (!ends_.empty()) return next_sought();
  if (next_ == order_.size()) return -1;
  const int32_t parent = parents_[static_cast<size_t>(order_[next_])];
  while (!path_.empty() && path_.back() != parent) path_.pop_back();
  const int32_t n_kept = n_path();
  n_read_ = n_kept + 1;
  do {
    path_.push_back(order_[next_++]);
  } while (next_ < order_.size() &&
           parents_[static_cast<size_t>(order_[next_])] == path_.back());
  return way_.from_prompt ? 0 : n_kept;
}

}  // namespace lh
