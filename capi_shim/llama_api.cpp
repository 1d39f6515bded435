#include "llama_api.hpp"

namespace lh {

const LlamaApi& libllama_api() {
  static const LlamaApi api = {
      llama_decode,
      llama_get_logits_ith,
      [](llama_context* ctx, llama_seq_id seq_id, llama_pos from, llama_pos to) {
        return llama_memory_seq_rm(llama_get_memory(ctx), seq_id, from, to);
      },
      [](llama_context* ctx, llama_seq_id from, llama_seq_id to) {
        // Whole sequences only: libllama asserts on a partial copy between streams.
        llama_memory_seq_cp(llama_get_memory(ctx), from, to, -1, -1);
      },
      [](llama_context* ctx, llama_seq_id seq_id) {
        return llama_memory_seq_pos_max(llama_get_memory(ctx), seq_id);
      },
      llama_state_seq_get_size,
      llama_state_seq_get_data,
      llama_state_seq_set_data,
  };
  return api;
}

}  // namespace lh
