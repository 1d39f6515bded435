// Log-probabilities of a row of logits, as the model computed it: before bias, penalties
// and temperature.
#pragma once

#include <cstdint>

namespace lh {

// The logarithm of the sum of exp(logit) over float32[n], n > 0, to about 1e-6: a token's
// log-probability is its logit less that. NaN if a logit is NaN or +Inf, or all are -Inf.
double log_sum_exp(const float* logits, int32_t n) noexcept;

}  // namespace lh
