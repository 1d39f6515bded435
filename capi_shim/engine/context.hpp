// Makes llama_contexts for the engine.
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

// Some of its layers keep recurrent states, which cannot be cut.
bool has_recurrent_states(const lh_model& model);

// Throws Error: LH_INVALID_ARGUMENT for a parameter out of range, LH_CONTEXT_ERROR where
// the model makes no context with them.
void check_params(const lh_model& model, const lh_engine_params& params);

// Decodes end while abort_flag is set. Throws Error: as check_params, and
// LH_CONTEXT_ERROR where no context can be made.
ContextPtr make_context(const lh_model& model, const lh_engine_params& params,
                        std::atomic<bool>* abort_flag);

// What follows from the parameters for the cells, and for the batches.
KvCache::Layout cache_layout(const lh_model& model, const lh_engine_params& params);
BatchLimits batch_limits(const lh_model& model, const lh_engine_params& params,
                         const llama_context* ctx);

// Sequences that one context saved can be brought back into another one with an equal
// key: their cells have the same form, and the same numbers.
std::vector<double> make_state_key(const lh_model& model, const lh_engine_params& params,
                                   const llama_context* ctx);

}  // namespace lh
