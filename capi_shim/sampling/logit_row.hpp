// Row of logits, read once for its maximum or its k largest values.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "llama.h"

namespace lh {

// Logit of a token that must not be drawn.
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Row of logits with the maximum of each block (its peak). Queries compare the peaks
// first and read only the relevant blocks.
class LogitRow {
 public:
  // For rows of n logits, n > 0.
  explicit LogitRow(int32_t n);

  // Reads a row. The row must not change until the last query.
  void find(const float* logits) noexcept;

  const float* logits() const { return logits_; }

  // Returns the largest logit; NaN if any logit is NaN.
  float highest() const { return highest_; }

  // Index of the maximum, the first among equals. No logit may be NaN.
  int32_t argmax() const;

  // Writes the k largest logits, largest first, equal ones in order of their index. 0 < k
  // <= n; no logit may be NaN.
  void take_top_k(int32_t k, std::vector<llama_token_data>& taken);

 private:
  int32_t n_;
  const float* logits_ = nullptr;
  float highest_ = 0.0F;
  std::vector<float> peaks_;
  std::vector<float> largest_peaks_;
};

}  // namespace lh
