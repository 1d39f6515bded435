// llama_contexts, and the objects that belong to the context of an engine.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "batch_builder.hpp"
#include "kv_cache.hpp"
#include "llama-cpp.h"
#include "llamaherd.h"
#include "model.hpp"
#include "statistics.hpp"
#include "step_sampler.hpp"

namespace lh {

// Creates a context with the model's adapters, whose computations abort while abort_flag
// is set. Throws Error (LH_CONTEXT_ERROR) if libllama creates no context.
llama_context_ptr make_context(const lh_model& model, llama_context_params native,
                               std::atomic<bool>* abort_flag);

// Computes a batch outside an engine. Throws Error: LH_ABORTED while abort_flag is set,
// LH_DECODE_ERROR with libllama's reason if it rejects the batch.
void compute(llama_context* ctx, const llama_batch& batch,
             const std::atomic<bool>& abort_flag);

// Tests whether any layer keeps a recurrent state, which cannot be truncated.
bool has_recurrent_states(const lh_model& model);

// Checks the parameters. Throws Error: LH_INVALID_ARGUMENT for a parameter out of range,
// LH_CONTEXT_ERROR if the model cannot have a context with these parameters.
void check_params(const lh_model& model, const lh_engine_params& params);

// Objects that are created and destroyed with the context of an engine.
struct Stage {
  // The arguments must outlive the stage. Throws the same errors as check_params and
  // make_context.
  Stage(const lh_model& model, const lh_engine_params& params,
        std::atomic<bool>* abort_flag, Statistics& statistics);

  const lh_engine_params params;
  const llama_context_ptr ctx;
  const BatchLimits limits;
  const int32_t n_prompt_max;  // maximum tokens of a prompt
  // A state that was saved in one context can be restored in another context with an
  // equal key, because the cells have the same layout and values.
  const std::vector<double> state_key;
  KvCache kv;
  const std::unique_ptr<BatchBuilder> builder;
  StepSampler sampler;
};

}  // namespace lh
