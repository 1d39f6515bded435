#include "logit_row.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "round_up.hpp"

namespace lh {
namespace {

// Number of logits per block; the maximum of each block is stored.
constexpr int32_t kBlock = 256;

// Number of logits to prefetch, because a row comes from the last-level cache or from
// memory. (Prefetching halves the time for a vocabulary of 262k.)
constexpr int32_t kAhead = 4096;

void fetch(const float* logits) {
#if defined(__GNUC__)
  for (int32_t i = 0; i < kBlock; i += 16) __builtin_prefetch(logits + i);
#else
  static_cast<void>(logits);
#endif
}

// Vector of lanes in a form that compilers can vectorize; a plain loop is not vectorized.
class Lanes {
 public:
  // Returns the maximum of a block that contains no NaN.
  float largest(const float* block) {
    std::array<float, kLanes> most;
    most.fill(kMinusInfinity);
    for (int32_t i = 0; i < kBlock; i += 2 * kLanes) {
      for (int32_t lane = 0; lane < kLanes; ++lane) {
        const auto j = static_cast<size_t>(lane);
        const float x = block[i + lane];
        const float y = block[i + kLanes + lane];
        const float larger = x > y ? x : y;
        most[j] = larger > most[j] ? larger : most[j];
        is_nan_[j] |= static_cast<uint32_t>(x != x) | static_cast<uint32_t>(y != y);
      }
    }
    for (size_t width = kLanes / 2; width > 0; width /= 2) {
      for (size_t j = 0; j < width; ++j) most[j] = std::max(most[j], most[j + width]);
    }
    return most[0];
  }

  bool saw_nan() const {
    return std::any_of(is_nan_.begin(), is_nan_.end(), [](uint32_t x) { return x != 0; });
  }

 private:
  static constexpr int32_t kLanes = 16;
  std::array<uint32_t, kLanes> is_nan_{};
};

}  // namespace

LogitRow::LogitRow(int32_t n)
    : n_(n), peaks_(static_cast<size_t>(round_up(n, kBlock) / kBlock)) {}

void LogitRow::find(const float* logits) noexcept {
  logits_ = logits;
  Lanes lanes;
  auto peak = peaks_.begin();
  int32_t i = 0;
  for (; i + kBlock <= n_; i += kBlock) {
    if (i + kAhead + kBlock <= n_) fetch(logits + i + kAhead);
    *peak++ = lanes.largest(logits + i);
  }
  bool any_nan = lanes.saw_nan();
  if (i < n_) {
    *peak = *std::max_element(logits + i, logits + n_);
    any_nan = any_nan ||
              std::any_of(logits + i, logits + n_, [](float x) { return std::isnan(x); });
  }
  highest_ = any_nan ? std::numeric_limits<float>::quiet_NaN()
                     : *std::max_element(peaks_.begin(), peaks_.end());
}

int32_t LogitRow::argmax() const {
  const auto block = std::find(peaks_.begin(), peaks_.end(), highest_) - peaks_.begin();
  return static_cast<int32_t>(
      std::find(logits_ + block * kBlock, logits_ + n_, highest_) - logits_);
}

void LogitRow::take_top_k(int32_t k, std::vector<llama_token_data>& taken) {
  // At least k blocks have a logit that is not below the k-th largest peak. Smaller
  // logits are therefore not among the k largest.
  float least = kMinusInfinity;
  if (static_cast<size_t>(k) <= peaks_.size()) {
    largest_peaks_ = peaks_;
    const auto kth = largest_peaks_.begin() + (k - 1);
    std::nth_element(largest_peaks_.begin(), kth, largest_peaks_.end(), std::greater<>());
    least = *kth;
  }
  taken.clear();
  for (size_t block = 0; block < peaks_.size(); ++block) {
    if (peaks_[block] < least) continue;
    const auto first = static_cast<int32_t>(block) * kBlock;
    for (int32_t i = first; i < std::min(n_, first + kBlock); ++i) {
      if (logits_[i] >= least) taken.push_back({i, logits_[i], 0.0F});
    }
  }
  std::partial_sort(taken.begin(), taken.begin() + k, taken.end(),
                    [](const llama_token_data& a, const llama_token_data& b) {
                      return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
                    });
  taken.resize(static_cast<size_t>(k));
}

}  // namespace lh
