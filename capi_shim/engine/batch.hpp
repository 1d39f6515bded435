// RAII wrapper of one llama_batch that is allocated once and reused for every decode.
#pragma once

#include <cstdint>

#include "llama.h"
#include "llamaherd.h"

namespace lh {

// ggml's matrix kernels process four rows at a time. The rows that remain are processed
// by another kernel, with different rounding (ggml-cpu/repack.cpp, llamafile/sgemm.cpp).
constexpr int32_t kUniformRows = LH_UNIFORM_ROWS;

class Batch {
 public:
  explicit Batch(int32_t capacity);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void clear() { batch_.n_tokens = 0; }
  // Adds one token and returns its index, which is also the index of its row of logits.
  int32_t add(int32_t token, int32_t position, int32_t seq_id, bool logits);
  const llama_batch& get() const { return batch_; }

 private:
  llama_batch batch_;
  int32_t capacity_;
};

}  // namespace lh
