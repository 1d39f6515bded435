// Log-probabilities of the tokens of an answer, in the model's own distribution: before
// bias, masks, penalties and temperature.
#pragma once

#include <cstdint>
#include <vector>

#include "logit_row.hpp"

namespace lh {

class Logprobs {
 public:
  // n_top: how many of the most likely tokens of each place to keep as well; of a
  // vocabulary of n_vocab.
  Logprobs(int32_t n_top, int32_t n_vocab);

  // Takes the row of the token that comes next. The sampler may change it afterwards.
  void read(const float* logits, LogitRow& row);
  // The token was taken, and is the answer's n-th, from 0.
  void accept(int32_t token, size_t n);
  // The answer has n tokens; those that were not accepted have no row.
  void fill(size_t n);

  int32_t n_top() const { return n_top_; }
  // float64[n_tokens]; NaN for one that was not read.
  const std::vector<double>& chosen() const { return chosen_; }
  // int32 and float64 [n_tokens, n_top], the most likely first; token -1: not read.
  const std::vector<int32_t>& top_tokens() const { return top_tokens_; }
  const std::vector<double>& top() const { return top_; }

 private:
  int32_t n_top_;
  std::vector<float> logits_;  // of the row
  double log_sum_ = 0;
  std::vector<llama_token_data> highest_;
  std::vector<double> chosen_;
  std::vector<int32_t> top_tokens_;
  std::vector<double> top_;
};

}  // namespace lh
