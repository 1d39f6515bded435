// Rounding of sizes.
#pragma once

namespace lh {

// Returns the smallest multiple of `to` that is not less than n.
template <class Integer>
constexpr Integer round_up(Integer n, Integer to) {
  return (n + to - 1) / to * to;
}

}  // namespace lh
