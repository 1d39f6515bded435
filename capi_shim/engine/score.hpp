// Log-probabilities of given continuations of a prompt, without generating: the task
// SCORE. See docs/decisions/0038.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "llamaherd.h"

namespace lh {

// The continuations as a tree of tokens, and the way through it. A node's log-probability
// is read in the row of what comes before it: of its parent, or of the prompt's last
// token. So only nodes with children are decoded: a *path* of them is put behind the
// prompt, and taken off again down to where the next path branches.
class Score {
 public:
  // How paths are put behind a prompt.
  struct Way {
    bool from_prompt;  // each from the prompt's end, not from where it branches
    bool by_state;     // and cells cannot be cut: what the prompt left is saved
  };

  // Throws Error (LH_INVALID_ARGUMENT) unless it is a tree of tokens of the vocabulary.
  Score(const lh_score& tree, int32_t n_vocab);
  // Seeks the most probable continuation only: paths that cannot lead to it are left out.
  // `ends`: for each node whether a continuation ends with it, -1: none does.
  Score(const lh_score& tree, int32_t n_vocab, const std::vector<int32_t>& ends);

  // Tokens of the longest path.
  int32_t depth() const { return depth_; }
  // Whether something has to be taken off before all is read.
  bool has_branches() const { return has_branches_; }
  void set_way(Way way) { way_ = way; }
  bool is_by_state() const { return way_.by_state; }

  // Rows are numbered along the path, 0: that of the prompt's last token. Whether the row
  // has yet to be read.
  bool wants_row(int32_t row) const { return row >= n_read_; }
  int32_t n_read() const { return n_read_; }
  // Takes a row of float32[n_vocab]. Rows may be read side by side.
  void read(int32_t row, const float* logits) noexcept;
  // So many rows were read. Returns false if one of them was no row of numbers.
  bool count_rows(int32_t n_rows);
  // Whether all rows of the path were read.
  bool is_path_read() const;

  // Goes on to the next path. Returns how many of its tokens are behind the prompt
  // already; -1: all paths were read.
  int32_t next_path();
  int32_t n_path() const { return static_cast<int32_t>(path_.size()); }
  int32_t path_token(int32_t i) const;

  // The node that the most probable continuation ends with, all paths being read.
  int32_t best() const { return best_; }

  // float64[n_nodes]
  const std::vector<double>& logprobs() const { return logprobs_; }

  std::vector<uint8_t> start;  // the state that the prompt left, if it is needed

 private:
  int32_t node_of_row(int32_t row) const;
  bool has_children(size_t node) const {
    return first_child_[node + 1] < first_child_[node + 2];
  }
  double end_logprob(size_t node) const;
  int32_t open_node();
  int32_t next_sought();

  const int32_t n_vocab_;
  Way way_{};
  std::vector<int32_t> tokens_;
  std::vector<int32_t> parents_;
  std::vector<int32_t> children_;     // of all nodes, those of one after the other
  std::vector<int32_t> first_child_;  // by node + 1, where its children begin; and an end
  std::vector<int32_t> order_;        // nodes with children, depth first
  int32_t depth_ = 0;
  bool has_branches_ = false;
  size_t next_ = 0;            // in order_
  std::vector<int32_t> path_;  // nodes
  int32_t n_read_ = 0;         // rows of the path
  std::vector<double> logprobs_;
  std::vector<int32_t> ends_;  // empty: all are read
  int32_t best_ = -1;
};

}  // namespace lh
