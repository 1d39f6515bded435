// Sequence ids and positions: who sits where in the KV cache.
#pragma once

#include <cstdint>
#include <vector>

#include "llama.h"

namespace lh {

// Next position of every sequence, the one record that prefill, decode and fallback
// share. A sequence without a record has no cells in the cache. Not for several threads.
class Positions {
 public:
  Positions(llama_memory_t memory, int32_t n_seq_max);

  bool has(int32_t seq_id) const;
  // Next position to decode at; 0 without a record.
  int32_t get(int32_t seq_id) const;
  void advance(int32_t seq_id, int32_t n_tokens);
  // Sets the record to a position that the cache is known to be at.
  void set(int32_t seq_id, int32_t position);
  // Removes every cell of the sequence, whatever the record says, and the record.
  void clear(int32_t seq_id);
  // Removes the cells from the recorded position on, which a failed decode may have left.
  // False: the memory cannot be cut there (recurrent).
  bool rewind(int32_t seq_id);
  // Compares the record with llama_memory_seq_pos_max; throws Error naming both.
  void verify(int32_t seq_id) const;

 private:
  llama_memory_t memory_;
  std::vector<int32_t> next_;  // -1: no record
};

// Hands out sequence ids. libllama computes neighbouring streams in one go and a gap
// splits the batch, so clients get the lowest free id, and prefixes, which mostly sit
// still, the highest.
class SequencePool {
 public:
  SequencePool(Positions& positions, int32_t n_seq_max);

  // The lowest free id, or -1.
  int32_t first_free() const;
  // A free id whose cells are gone, or -1.
  int32_t acquire();
  int32_t acquire_last();
  void release(int32_t seq_id);
  int32_t n_used() const { return n_used_; }

 private:
  int32_t take(size_t i);

  Positions& positions_;
  std::vector<bool> used_;
  int32_t n_used_ = 0;
};

}  // namespace lh
