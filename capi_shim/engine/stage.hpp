// All that hangs on one llama_context: made with it, and gone with it.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "batch_builder.hpp"
#include "context.hpp"
#include "kv_cache.hpp"
#include "llamaherd.h"
#include "model.hpp"
#include "statistics.hpp"
#include "step_sampler.hpp"

namespace lh {

struct Stage {
  // What is given must outlive it. Throws as make_context does.
  Stage(const lh_model& model, const lh_engine_params& params,
        std::atomic<bool>* abort_flag, Statistics& statistics);

  const lh_engine_params params;
  const ContextPtr ctx;
  const BatchLimits limits;
  const int32_t n_prompt_max;           // tokens of a prompt
  const std::vector<double> state_key;  // see context.hpp
  KvCache kv;
  const std::unique_ptr<BatchBuilder> builder;
  StepSampler sampler;
};

}  // namespace lh
