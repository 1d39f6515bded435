// Positions of sequences in the KV cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lh {

// Next position of every sequence, for prefill, decode and fallback. A sequence without a
// record has no cells in the cache. Not thread-safe.
class Positions {
 public:
  explicit Positions(int32_t n_seq_max) : next_(static_cast<size_t>(n_seq_max), kNone) {}

  bool has(int32_t seq_id) const { return next_.at(static_cast<size_t>(seq_id)) >= 0; }
  // Returns the next position to decode; 0 without a record.
  int32_t get(int32_t seq_id) const {
    return std::max(next_.at(static_cast<size_t>(seq_id)), 0);
  }
  // Call it after the cache has reached this position.
  void set(int32_t seq_id, int32_t position) {
    next_.at(static_cast<size_t>(seq_id)) = position;
  }
  void forget(int32_t seq_id) { set(seq_id, kNone); }

 private:
  static constexpr int32_t kNone = -1;

  std::vector<int32_t> next_;
};

}  // namespace lh
