#include "log_softmax.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace lh {
namespace {

constexpr int32_t kLanes = 16;
// Number of values that are added as floats before their sum is added as a double. It is
// small enough that rounding errors are negligible.
constexpr int32_t kSummed = 16 * kLanes;

// Computes exp(x) for x <= 0 to within two units in the last place. The code has no
// branch or call, so that compilers can vectorize it. Method: 2^n * exp(r) with |r| <
// 0.35, and exp(r) by the first terms of its series.
inline float exp_of(float x) {
  constexpr float kLog2E = 1.44269504F;
  // few enough digits that n * kLn2High is exact
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kLeast = -87.0F;  // exp of smaller values is subnormal and treated as 0
  x = x > kLeast ? x : kLeast;
  const float n = (x * kLog2E + kRound) - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  const float series =
      1.0F +
      r * (1.0F +
           r * (1.0F / 2 +
                r * (1.0F / 6 + r * (1.0F / 24 + r * (1.0F / 120 + r * (1.0F / 720))))));
  const int32_t bits =
      (static_cast<int32_t>(n) + 127) * 8'388'608;  // 2^23: shift into the exponent
  float power = 0.0F;
  std::memcpy(&power, &bits, sizeof(power));
  return series * power;
}

// Sums exp(logit - highest) over a block.
double sum_block(const float* logits, float highest) {
  std::array<float, kLanes> sums{};
  for (int32_t i = 0; i < kSummed; i += kLanes) {
    for (int32_t lane = 0; lane < kLanes; ++lane) {
      sums[static_cast<size_t>(lane)] += exp_of(logits[i + lane] - highest);
    }
  }
  double sum = 0;
  for (const float partial : sums) sum += static_cast<double>(partial);
  return sum;
}

// Returns the maximum; NaN if any logit is NaN.
float highest_of(const float* logits, int32_t n) {
  std::array<float, kLanes> most;
  most.fill(-std::numeric_limits<float>::infinity());
  std::array<uint32_t, kLanes> is_nan{};
  int32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int32_t lane = 0; lane < kLanes; ++lane) {
      const auto j = static_cast<size_t>(lane);
      const float x = logits[i + lane];
      most[j] = x > most[j] ? x : most[j];
      is_nan[j] |= static_cast<uint32_t>(x != x);
    }
  }
  for (; i < n; ++i) {
    most[0] = std::max(most[0], logits[i]);
    is_nan[0] |= static_cast<uint32_t>(std::isnan(logits[i]));
  }
  const bool any =
      std::any_of(is_nan.begin(), is_nan.end(), [](uint32_t x) { return x; });
  return any ? std::numeric_limits<float>::quiet_NaN()
             : *std::max_element(most.begin(), most.end());
}

}  // namespace

double log_sum_exp(const float* logits, int32_t n) noexcept {
  const float highest = highest_of(logits, n);
  if (!std::isfinite(highest)) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  int32_t i = 0;
  for (; i + kSummed <= n; i += kSummed) sum += sum_block(logits + i, highest);
  for (; i < n; ++i) sum += static_cast<double>(exp_of(logits[i] - highest));
  return static_cast<double>(highest) + std::log(sum);
}

}  // namespace lh
