// The libllama calls that can fail while the engine runs, as a table, so that tests can
// make each of them fail at a chosen step. Production code uses libllama_api() only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "llama.h"

namespace lh {

struct LlamaApi {
  int32_t (*decode)(llama_context*, llama_batch);
  float* (*get_logits_ith)(llama_context*, int32_t);
  bool (*memory_seq_rm)(llama_context*, llama_seq_id, llama_pos, llama_pos);
  void (*memory_seq_cp)(llama_context*, llama_seq_id from, llama_seq_id to);
  llama_pos (*memory_seq_pos_max)(llama_context*, llama_seq_id);
  size_t (*state_seq_get_size)(llama_context*, llama_seq_id);
  size_t (*state_seq_get_data)(llama_context*, uint8_t*, size_t, llama_seq_id);
  size_t (*state_seq_set_data)(llama_context*, const uint8_t*, size_t, llama_seq_id);
};

const LlamaApi& libllama_api();

}  // namespace lh
