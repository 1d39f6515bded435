#include "batch.hpp"

#include "guard.hpp"

namespace lh {

Batch::Batch(int32_t capacity)
    : batch_(llama_batch_init(capacity, 0, 1)), capacity_(capacity) {}

Batch::~Batch() { llama_batch_free(batch_); }

int32_t Batch::add(int32_t token, int32_t position, int32_t seq_id, bool logits) {
  const int32_t i = batch_.n_tokens;
  if (i >= capacity_) throw Error(LH_INTERNAL, "the batch is full");
  batch_.token[i] = token;
  batch_.pos[i] = position;
  batch_.n_seq_id[i] = 1;
  batch_.seq_id[i][0] = seq_id;
  batch_.logits[i] = static_cast<int8_t>(logits);
  ++batch_.n_tokens;
  return i;
}

}  // namespace lh
