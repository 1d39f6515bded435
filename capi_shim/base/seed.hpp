// Seeds of clients, derived so that clients are independent.
#pragma once

#include <cstdint>

namespace lh {

// Returns splitmix64 (Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195) of seed
// and index.
inline uint32_t derive_seed(uint32_t seed, uint64_t index) noexcept {
  uint64_t z = (static_cast<uint64_t>(seed) << 32U) ^ (index * 0x9E3779B97F4A7C15ULL);
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return static_cast<uint32_t>((z ^ (z >> 31U)) >> 32U);
}

}  // namespace lh
