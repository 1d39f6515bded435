// One row of logits, read once: its largest, or its k largest.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "llama.h"

namespace lh {

// Of a token that must not be taken.
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// A row of logits, and the largest of each block of it (its peak). All else asks the
// peaks first and reads only the blocks that matter.
class LogitRow {
 public:
  // For rows of n logits, n > 0.
  explicit LogitRow(int32_t n);

  // The row must stay as it is while the rest is asked.
  void find(const float* logits) noexcept;

  const float* logits() const { return logits_; }

  // NaN if any of them is.
  float highest() const { return highest_; }

  // Index of the largest, the first of equals. None may be NaN.
  int32_t argmax() const;

  // The k largest, none of them NaN, largest first and the first of equals. 0 < k <= n.
  void take_top_k(int32_t k, std::vector<llama_token_data>& taken);

 private:
  int32_t n_;
  const float* logits_ = nullptr;
  float highest_ = 0.0F;
  std::vector<float> peaks_;
  std::vector<float> largest_peaks_;
};

}  // namespace lh
