// Log-probabilities of given continuations of a prompt, without generation, for the task
// SCORE. See docs/decisions/0038.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "logit_row.hpp"
#include "token_tree.hpp"

namespace lh {

// Continuations as a tree of tokens, and the traversal of the tree. The log-probability
// of a node is read in the logits row of its parent, or of the prompt's last token. Only
// nodes with children are therefore decoded. A *path* of such nodes is appended to the
// prompt. Afterwards its tokens are removed, back to the node where the next path
// branches.
class Score {
 public:
  // Method of appending paths to a prompt.
  struct Way {
    bool from_prompt;  // every path starts at the prompt's end, not at the node where it
                       // branches
    // the state after the prompt is saved, because cells cannot be truncated
    bool by_state;
  };

  // With `ends`, searches only for the most probable continuation: skips paths that
  // cannot lead to it. `ends`: for each node, the continuation that ends with it; -1:
  // none.
  Score(std::shared_ptr<const TokenTree> tree, int32_t n_vocab,
        std::vector<int32_t> ends = {});

  // Number of tokens of the longest path.
  int32_t depth() const { return depth_; }
  // Tests whether tokens must be removed before all paths are read.
  bool has_branches() const { return has_branches_; }
  void set_way(Way way) { way_ = way; }
  // Keeps the n most likely alternatives to the token of each node, n >= 0. Called before
  // the first row is read.
  void keep_top(int32_t n);
  bool is_by_state() const { return way_.by_state; }

  // Returns the number of rows of the path that were read. Row 0 belongs to the prompt's
  // last token, row i to the i-th token of the path.
  int32_t n_read() const { return n_read_; }
  // Reads a row of float32[n_vocab]. Several threads may read different rows, each with
  // its own reader.
  void read(int32_t row, const float* logits, LogitRow& reader) noexcept;
  // Marks the next n_rows rows as read. Returns false if any of them contained non-finite
  // values.
  bool count_rows(int32_t n_rows);
  // Tests whether all rows of the path were read.
  bool is_path_read() const;

  // Selects the next path. Returns the number of tokens of this path that are already in
  // the cache after the prompt; -1 if all paths were read.
  int32_t next_path();
  int32_t n_path() const { return static_cast<int32_t>(path_.size()); }
  int32_t path_token(int32_t i) const;

  // Returns the last node of the most probable continuation. Call it after all paths were
  // read.
  int32_t best() const { return best_; }

  // float64[n_nodes]
  const std::vector<double>& logprobs() const { return logprobs_; }
  // Returns the number of alternatives per node; -1 if keep_top was not called.
  int32_t n_top() const { return n_top_; }
  // int32 and float64 [n_nodes, n_top], most likely first; token -1: not computed.
  const std::vector<int32_t>& top_tokens() const { return top_tokens_; }
  const std::vector<double>& top() const { return top_; }
  // int32[n_nodes], ranks of the tokens among all tokens, 1 for the most likely one; 0:
  // not computed. Empty if keep_top was not called.
  const std::vector<int32_t>& ranks() const { return ranks_; }

  std::vector<uint8_t> start;  // state after the prompt, if needed

 private:
  int32_t node_of_row(int32_t row) const;
  double logprob(int32_t node) const { return logprobs_[static_cast<size_t>(node)]; }
  bool read_top(int32_t parent, const float* logits, double log_sum, LogitRow& reader);
  double end_logprob(int32_t node) const;
  int32_t open_node();
  int32_t next_sought();

  const std::shared_ptr<const TokenTree> tree_;
  const int32_t n_vocab_;
  const std::vector<int32_t> ends_;  // empty: every path is read
  Way way_{};
  std::vector<int32_t> order_;  // nodes with children, depth first
  int32_t depth_ = 0;
  bool has_branches_ = false;
  size_t next_ = 0;            // index into order_
  std::vector<int32_t> path_;  // nodes of the current path
  int32_t n_read_ = 0;         // number of rows of the path that were read
  std::vector<double> logprobs_;
  int32_t n_top_ = -1;
  std::vector<int32_t> top_tokens_;
  std::vector<double> top_;
  std::vector<int32_t> ranks_;
  int32_t best_ = -1;
};

}  // namespace lh
