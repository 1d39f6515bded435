#include "sequences.hpp"

#include <algorithm>
#include <string>

#include "guard.hpp"

namespace lh {

Positions::Positions(llama_memory_t memory, int32_t n_seq_max)
    : memory_(memory), next_(static_cast<size_t>(n_seq_max), -1) {}

bool Positions::has(int32_t seq_id) const {
  return next_.at(static_cast<size_t>(seq_id)) >= 0;
}

int32_t Positions::get(int32_t seq_id) const {
  return std::max(next_.at(static_cast<size_t>(seq_id)), 0);
}

void Positions::set(int32_t seq_id, int32_t position) {
  next_.at(static_cast<size_t>(seq_id)) = position;
}

void Positions::advance(int32_t seq_id, int32_t n_tokens) {
  set(seq_id, get(seq_id) + n_tokens);
}

void Positions::clear(int32_t seq_id) {
  llama_memory_seq_rm(memory_, seq_id, -1, -1);
  set(seq_id, -1);
}

bool Positions::rewind(int32_t seq_id) {
  return llama_memory_seq_rm(memory_, seq_id, get(seq_id), -1);
}

void Positions::verify(int32_t seq_id) const {
  const int32_t next = get(seq_id);
  const int32_t cache_end = llama_memory_seq_pos_max(memory_, seq_id) + 1;
  if (cache_end != next) {
    throw Error(LH_INTERNAL, "sequence " + std::to_string(seq_id) +
                                 " is recorded at position " + std::to_string(next) +
                                 ", but the KV cache ends at " +
                                 std::to_string(cache_end));
  }
}

SequencePool::SequencePool(Positions& positions, int32_t n_seq_max)
    : positions_(positions), used_(static_cast<size_t>(n_seq_max), false) {}

int32_t SequencePool::first_free() const {
  const auto free = std::find(used_.begin(), used_.end(), false);
  return free == used_.end() ? -1 : static_cast<int32_t>(free - used_.begin());
}

int32_t SequencePool::acquire() {
  const int32_t free = first_free();
  return free < 0 ? -1 : take(static_cast<size_t>(free));
}

int32_t SequencePool::acquire_last() {
  const auto free = std::find(used_.rbegin(), used_.rend(), false);
  return free == used_.rend() ? -1 : take(static_cast<size_t>(used_.rend() - free) - 1);
}

int32_t SequencePool::take(size_t i) {
  positions_.clear(static_cast<int32_t>(i));
  used_[i] = true;
  ++n_used_;
  return static_cast<int32_t>(i);
}

void SequencePool::release(int32_t seq_id) {
  const auto i = static_cast<size_t>(seq_id);
  if (!used_.at(i)) return;
  positions_.clear(seq_id);
  used_[i] = false;
  --n_used_;
}

}  // namespace lh
