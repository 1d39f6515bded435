// Objects that belong to one llama_context, created and destroyed with it.
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
  // The arguments must outlive the stage. Throws the same errors as make_context.
  Stage(const lh_model& model, const lh_engine_params& params,
        std::atomic<bool>* abort_flag, Statistics& statistics);

  const lh_engine_params params;
  const ContextPtr ctx;
  const BatchLimits limits;
  const int32_t n_prompt_max;           // maximum tokens of a prompt
  const std::vector<double> state_key;  // see context.hpp
  KvCache kv;
  const std::unique_ptr<BatchBuilder> builder;
  StepSampler sampler;
};

}  // namespace lh
