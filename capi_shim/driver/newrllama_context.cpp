#include "newrllama_context.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <random>

#include "guard.hpp"
#include "log.hpp"
#include "round_up.hpp"
#include "sampler.hpp"

namespace {

// Sequences for shared prefixes.
constexpr int32_t kMostHeld = LH_MAX_PREFIX_DEPTH;

lh::HerdSettings settings_of(const newrllama_parallel_params& params) {
  lh::require_range("max_tokens", params.max_tokens, 1, INT32_MAX);
  lh::HerdSettings settings{};
  lh_sampling_default_params(&settings.sampling);
  settings.sampling.top_k = params.top_k;
  settings.sampling.top_p = params.top_p;
  settings.sampling.temperature = params.temperature;
  settings.sampling.repeat_last_n = params.repeat_last_n;
  settings.sampling.penalty_repeat = params.penalty_repeat;
  settings.sampling.seed =
      params.seed < 0 ? std::random_device{}() : static_cast<uint32_t>(params.seed);
  settings.max_tokens = params.max_tokens;
  return settings;
}

std::string format_stats(const lh_stats& stats, size_t n_prompts, int32_t n_failed,
                         int32_t n_fallbacks, uint32_t seed) {
  const auto rate = [](int64_t n, double seconds) {
    return seconds > 0 ? static_cast<double>(n) / seconds : 0.0;
  };
  const auto n_batches = static_cast<double>(std::max<int64_t>(stats.n_batches, 1));
  char line[512];
  std::snprintf(line, sizeof(line),
                "llamaherd: %zu prompts, %d failed; tokens: %" PRId64
                " prompt decoded, %" PRId64 " reused, %" PRId64
                " generated; %.1f prompt tokens/s, %.1f generated tokens/s; %" PRId64
                " batches, %.1f clients each; KV high-water %" PRId64
                " cells; %d fallbacks; seed %" PRIu32,
                n_prompts, n_failed, stats.n_prefill, stats.n_reused, stats.n_generated,
                rate(stats.n_prefill, stats.t_prefill_s),
                rate(stats.n_decode, stats.t_decode_s), stats.n_batches,
                static_cast<double>(stats.n_clients) / n_batches, stats.n_cells_max,
                n_fallbacks, seed);
  return line;
}

}  // namespace

newrllama_context::newrllama_context(const lh_model& model, int32_t n_ctx,
                                     int32_t n_threads, int32_t n_seq_max)
    : model_(model), n_ctx_(n_ctx), n_threads_(n_threads), n_slots_(n_seq_max) {
  const auto limit = static_cast<int32_t>(llama_max_parallel_sequences());
  lh::require_range("n_seq_max", n_seq_max, 1, limit - kMostHeld);
  lh::require_range("n_ctx", n_ctx, 1, INT32_MAX / 2);
  lh::require_range("n_threads", n_threads, 0, 1024);
  // The engine is created now, so that errors of the model are reported now.
  prepare_engine(plan({}, {}, 0));
}

// Plans one stream of cells for each sequence, with as many cells as the longest prompt
// needs. n_ctx and the user limit the number of streams. A common pool could hold a few
// more sequences, but has two disadvantages: a text would depend on concurrent texts,
// because attention sums in the order of the cells, and attention would take longer.
newrllama_context::Layout newrllama_context::plan(
    const std::vector<lh::HerdPrompt>& prompts, const lh::PrefixTree& tree,
    int32_t max_tokens) const {
  int64_t need = 1;
  for (const lh::HerdPrompt& prompt : prompts) {
    const int64_t n = static_cast<int64_t>(prompt.tokens.size()) + max_tokens;
    if (n <= n_ctx_) need = std::max(need, n);  // longer prompts fail individually
  }
  const auto stream = static_cast<int32_t>(lh::round_up<int64_t>(need, LH_CELL_BLOCK));
  const int32_t n_streams = std::max(1, n_ctx_ / stream);
  const int32_t n_hold = std::min(
      {lh::prefix_depth(tree), kMostHeld, std::max(n_streams / 4, 1), n_streams - 1});
  return {std::min(n_slots_, n_streams - n_hold), n_hold, stream};
}

// Keeps the engine if it has the planned layout.
void newrllama_context::prepare_engine(const Layout& layout) {
  const int32_t n_seq = layout.n_slots + layout.n_hold_max;
  if (engine_) {
    const lh_engine_info info = engine_->info();
    if (info.n_seq_max == n_seq && info.n_ctx_seq == layout.n_ctx_seq) return;
  }
  engine_.reset();
  lh_engine_params params;
  lh_engine_default_params(&params);
  params.kv_unified = 0;
  params.n_ctx = layout.n_ctx_seq * n_seq;
  params.n_seq_max = n_seq;
  params.n_threads = n_threads_;
  engine_ = std::make_unique<lh_engine>(model_, params, &abort_flag_);
}

bool newrllama_context::run(std::vector<lh::HerdPrompt> prompts,
                            const newrllama_parallel_params& params,
                            std::vector<lh::HerdResult>& results) {
  lh::HerdSettings settings = settings_of(params);
  lh::check_sampling(model_, settings.sampling);
  const std::scoped_lock lock(mutex_);
  abort_flag_ = false;
  lh::PrefixTree tree = lh::herd_prefixes(prompts, params.max_tokens);
  const Layout layout = plan(prompts, tree, params.max_tokens);
  prepare_engine(layout);
  settings.n_slots = layout.n_slots;
  settings.n_hold_max = layout.n_hold_max;
  settings.n_ctx = n_ctx_;
  engine_->forget_call(settings.call);
  lh::Herd herd(*engine_, std::move(prompts), std::move(tree), settings);
  const bool is_complete = herd.run();
  results = herd.results();
  const auto n_failed = std::count_if(results.begin(), results.end(),
                                      [](const lh::HerdResult& r) { return r.failed; });
  stats_line_ = format_stats(engine_->stats(settings.call), results.size(),
                             static_cast<int32_t>(n_failed), herd.n_fallbacks(),
                             settings.sampling.seed);
  if (lh::debug_level() >= 1) std::fprintf(stderr, "%s\n", stats_line_.c_str());
  return is_complete;
}

std::string newrllama_context::stats_line() {
  const std::scoped_lock lock(mutex_);
  return stats_line_;
}
