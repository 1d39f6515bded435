// Sequence ids and positions in the KV cache.
#pragma once

#include <cstdint>
#include <vector>

#include "llama.h"

namespace lh {

// Records the next position of every sequence, for prefill, decode and fallback. A
// sequence without a record has no cells in the cache. Not thread-safe.
class Positions {
 public:
  Positions(llama_memory_t memory, int32_t n_seq_max);

  bool has(int32_t seq_id) const;
  // Returns the next position to decode; 0 without a record.
  int32_t get(int32_t seq_id) const;
  void advance(int32_t seq_id, int32_t n_tokens);
  // Sets the recorded position. Call it after the cache has reached this position.
  void set(int32_t seq_id, int32_t position);
  // Removes the record and every cell of the sequence. The record may have any content.
  void clear(int32_t seq_id);
  // Removes the cells at and after the recorded position, which a failed decode may have
  // left. Returns false if the memory cannot be truncated there (recurrent).
  bool rewind(int32_t seq_id);
  // Compares the record with llama_memory_seq_pos_max. Throws Error with both values if
  // they differ.
  void verify(int32_t seq_id) const;

 private:
  llama_memory_t memory_;
  std::vector<int32_t> next_;  // -1: no record
};

// Pool of sequence ids. libllama computes streams with consecutive ids together; a gap in
// the ids splits the batch. Clients therefore get the lowest free id. Prefixes, which are
// idle most of the time, get the highest free id.
class SequencePool {
 public:
  SequencePool(Positions& positions, int32_t n_seq_max);

  // Returns the lowest free id; -1 if no id is free.
  int32_t first_free() const;
  // Both functions remove the cells of a free id and return the id; -1 if no id is free.
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
