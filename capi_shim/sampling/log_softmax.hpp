// Log-probabilities of a row of logits as computed by the model: before bias, penalties
// and temperature.
#pragma once

#include <cstdint>

namespace lh {

// Returns log(sum of exp(logit)) over float32[n], n > 0, to about 1e-6. A token's
// log-probability is its logit minus this value. NaN if a logit is NaN or +Inf, or if all
// are -Inf.
double log_sum_exp(const float* logits, int32_t n) noexcept;

}  // namespace lh
