// Creation of llama_contexts for the engine.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "batch_builder.hpp"
#include "kv_cache.hpp"
#include "llama.h"
#include "llamaherd.h"
#include "model.hpp"

namespace lh {

struct ContextDeleter {
  void operator()(llama_context* ctx) const { llama_free(ctx); }
};
using ContextPtr = std::unique_ptr<llama_context, ContextDeleter>;

// Tests whether any layer keeps a recurrent state, which cannot be truncated.
bool has_recurrent_states(const lh_model& model);

// Checks the parameters. Throws Error: LH_INVALID_ARGUMENT for a parameter out of range,
// LH_CONTEXT_ERROR if the model cannot have a context with these parameters.
void check_params(const lh_model& model, const lh_engine_params& params);

// Creates a llama_context whose decodes abort while abort_flag is set. Throws the same
// errors as check_params, and Error (LH_CONTEXT_ERROR) if libllama creates no context.
ContextPtr make_context(const lh_model& model, const lh_engine_params& params,
                        std::atomic<bool>* abort_flag);

// Derives the layout of KV cells, and the limits of batches, from the parameters.
KvCache::Layout cache_layout(const lh_model& model, const lh_engine_params& params);
BatchLimits batch_limits(const lh_model& model, const lh_engine_params& params,
                         const llama_context* ctx);

// Returns a key for saved sequences. A state that was saved in one context can be
// restored in another context with an equal key, because the cells have the same layout
// and values.
std::vector<double> make_state_key(const lh_model& model, const lh_engine_params& params,
                                   const llama_context* ctx);

}  // namespace lh
