// Log-probabilities of the tokens of an answer under the model itself: before bias,
// masks, penalties and temperature.
#pragma once

#include <cstdint>
#include <vector>

#include "logit_row.hpp"

namespace lh {

class Logprobs {
 public:
  // n_top: number of most likely alternatives to keep per token. n_vocab: size of the
  // vocabulary.
  Logprobs(int32_t n_top, int32_t n_vocab);

  // Reads the row of the next token. The sampler may modify the row afterwards.
  void read(const float* logits, LogitRow& row) noexcept;
  // Records the token as the n-th of the answer, from 0. Throws std::bad_alloc also if
  // read() found no memory.
  void accept(int32_t token, size_t n);
  // Completes the arrays for n tokens. Tokens for which accept() was not called have no
  // row.
  void fill(size_t n);

  int32_t n_top() const { return n_top_; }
  // float64[n_tokens]; NaN for a token without a row.
  const std::vector<double>& chosen() const { return chosen_; }
  // int32 and float64 [n_tokens, n_top], most likely first; token -1: no row.
  const std::vector<int32_t>& top_tokens() const { return top_tokens_; }
  const std::vector<double>& top() const { return top_; }

 private:
  int32_t n_top_;
  std::vector<float> logits_;  // copy of the row
  double log_sum_ = 0;
  bool is_read_ = false;  // whether the row was read completely
  std::vector<llama_token_data> highest_;
  std::vector<double> chosen_;
  std::vector<int32_t> top_tokens_;
  std::vector<double> top_;
};

}  // namespace lh
