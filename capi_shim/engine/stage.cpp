#include "stage.hpp"

#include "mixed_batch.hpp"
#include "openmp.hpp"
#include "uniform_batch.hpp"

namespace lh {
namespace {

std::unique_ptr<BatchBuilder> make_builder(bool uniform, const Positions& positions,
                                           const BatchLimits& limits) {
  if (uniform) return std::make_unique<UniformBatch>(positions, limits);
  return std::make_unique<MixedBatch>(positions, limits);
}

// In the deterministic mode, prompts are padded to whole groups of rows.
int32_t most_prompt_tokens(const BatchLimits& limits, bool deterministic) {
  return limits.n_ctx_seq - (deterministic ? kUniformRows - 1 : 0);
}

}  // namespace

Stage::Stage(const lh_model& model, const lh_engine_params& p,
             std::atomic<bool>* abort_flag, Statistics& statistics)
    : params(p),
      ctx(make_context(model, p, abort_flag)),
      limits(batch_limits(model, p, ctx.get())),
      n_prompt_max(most_prompt_tokens(limits, p.deterministic != 0)),
      state_key(make_state_key(model, p, ctx.get())),
      kv(ctx.get(), cache_layout(model, p)),
      builder(make_builder(p.deterministic != 0, kv.positions(), limits)),
      sampler(model, ctx.get(), kv, statistics,
              own_threads() ? llama_n_threads_batch(ctx.get()) : 1) {}

}  // namespace lh
