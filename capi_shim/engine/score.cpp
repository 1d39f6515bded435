#include "score.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "log_softmax.hpp"

namespace lh {
namespace {

constexpr int32_t kPrompt = TokenTree::kRoot;  // before all continuations

// Rank of a token in a row, from 1: tokens with equal logits in order of their index.
int32_t rank_of(const float* logits, int32_t n_vocab, int32_t token) {
  const float logit = logits[token];
  const auto n_more = std::count_if(logits, logits + n_vocab,
                                    [logit](float other) { return other > logit; });
  const auto n_equal = std::count(logits, logits + token, logit);
  return static_cast<int32_t>(n_more + n_equal) + 1;
}

}  // namespace

Score::Score(std::shared_ptr<const TokenTree> tree, int32_t n_vocab,
             std::vector<int32_t> ends)
    : tree_(std::move(tree)), n_vocab_(n_vocab), ends_(std::move(ends)) {
  logprobs_.assign(tree_->size(), std::nan(""));
  // Traverses depth first, without recursion, because a continuation may be long.
  std::vector<std::pair<int32_t, int32_t>> open{{kPrompt, 0}};  // nodes with their depth
  while (!open.empty()) {
    const auto [node, depth] = open.back();
    open.pop_back();
    if (tree_->is_leaf(node)) continue;
    if (node != kPrompt) {
      has_branches_ =
          has_branches_ || (!order_.empty() && order_.back() != tree_->parent(node));
      order_.push_back(node);
    }
    depth_ = std::max(depth_, depth);
    const TokenTree::Nodes children = tree_->children(node);
    for (const auto* child = children.end(); child != children.begin();) {
      open.emplace_back(*--child, depth + 1);
    }
  }
}

int32_t Score::node_of_row(int32_t row) const {
  return row == 0 ? kPrompt : path_[static_cast<size_t>(row) - 1];
}

int32_t Score::path_token(int32_t i) const {
  return tree_->token(path_[static_cast<size_t>(i)]);
}

void Score::keep_top(int32_t n) {
  n_top_ = std::min(n, n_vocab_);
  const size_t n_all = tree_->size() * static_cast<size_t>(n_top_);
  top_tokens_.assign(n_all, -1);
  top_.assign(n_all, std::nan(""));
  ranks_.assign(tree_->size(), 0);
}

// Returns false if memory is insufficient.
bool Score::read_top(int32_t parent, const float* logits, double log_sum,
                     LogitRow& reader) {
  try {
    std::vector<llama_token_data> highest;
    reader.find(logits);
    reader.take_top_k(n_top_, highest);
    for (const int32_t child : tree_->children(parent)) {
      size_t at = static_cast<size_t>(child) * static_cast<size_t>(n_top_);
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
  const int32_t parent = node_of_row(row);
  double log_sum = logits == nullptr ? std::nan("") : log_sum_exp(logits, n_vocab_);
  if (n_top_ > 0 && !std::isnan(log_sum) && !read_top(parent, logits, log_sum, reader)) {
    log_sum = std::nan("");
  }
  for (const int32_t child : tree_->children(parent)) {
    const auto k = static_cast<size_t>(child);
    const int32_t token = tree_->token(child);
    logprobs_[k] =
        std::isnan(log_sum) ? log_sum : static_cast<double>(logits[token]) - log_sum;
    if (n_top_ >= 0 && !std::isnan(log_sum)) {
      ranks_[k] = rank_of(logits, n_vocab_, token);
    }
  }
}

bool Score::count_rows(int32_t n_rows) {
  bool is_good = true;
  for (int32_t row = n_read_; row < n_read_ + n_rows; ++row) {
    const int32_t child = *tree_->children(node_of_row(row)).begin();
    is_good = is_good && !std::isnan(logprob(child));
  }
  n_read_ += n_rows;
  return is_good;
}

bool Score::is_path_read() const { return n_read_ == n_path() + 1; }

// Returns the log-probability that the continuation ends at the node.
double Score::end_logprob(int32_t node) const {
  constexpr double kLeastRest = 1e-7;  // smallest remainder that is larger than rounding
                                       // errors
  double rest = 1.0;
  for (const int32_t child : tree_->children(node)) rest -= std::exp(logprob(child));
  return std::log(std::max(rest, kLeastRest));
}

// Returns the most probable node from which a continuation may be more probable than the
// best one found so far; kPrompt if there is none. A continuation is never more probable
// than its beginning.
int32_t Score::open_node() {
  std::vector<double> sums(tree_->size());
  double best = -std::numeric_limits<double>::infinity();
  double highest = best;
  int32_t open = kPrompt;
  best_ = kPrompt;
  for (size_t k = 0; k < sums.size(); ++k) {
    const auto node = static_cast<int32_t>(k);
    const int32_t parent = tree_->parent(node);
    sums[k] = logprobs_[k] + (parent < 0 ? 0.0 : sums[static_cast<size_t>(parent)]);
    if (std::isnan(sums[k])) continue;
    const bool is_inner = !tree_->is_leaf(node);
    if (is_inner && std::isnan(logprob(*tree_->children(node).begin()))) {  // not read
      if (open == kPrompt || sums[k] > highest) {
        highest = sums[k];
        open = node;
      }
      continue;
    }
    if (ends_[k] < 0) continue;
    const double whole = sums[k] + (is_inner ? end_logprob(node) : 0.0);
    if (best_ == kPrompt || whole > best) {
      best = whole;
      best_ = node;
    }
  }
  return best_ == kPrompt || highest > best ? open : kPrompt;
}

int32_t Score::next_sought() {
  const int32_t open = open_node();
  if (open == kPrompt) return -1;
  std::vector<int32_t> path = tree_->path_up(open);
  std::reverse(path.begin(), path.end());
  // Nodes without alternatives are decoded together with their parent.
  while (tree_->children(path.back()).size() == 1) {
    const int32_t child = *tree_->children(path.back()).begin();
    if (tree_->is_leaf(child)) break;
    path.push_back(child);
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
  const int32_t parent = tree_->parent(order_[next_]);
  while (!path_.empty() && path_.back() != parent) path_.pop_back();
  const int32_t n_kept = n_path();
  n_read_ = n_kept + 1;
  do {
    path_.push_back(order_[next_++]);
  } while (next_ < order_.size() && tree_->parent(order_[next_]) == path_.back());
  return way_.from_prompt ? 0 : n_kept;
}

}  // namespace lh
