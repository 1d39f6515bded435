#include "context.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>

#include "amx.hpp"
#include "guard.hpp"
#include "log.hpp"
#include "openmp.hpp"
#include "round_up.hpp"

namespace lh {
namespace {

// Conditions under which logits do not depend on the shape of a batch, see
// docs/decisions/0012.
void check_deterministic(const lh_model& model, const lh_engine_params& p) {
  require(p.kv_unified == 0, "deterministic needs kv_unified 0");
  require(p.flash_attn == 1, "deterministic needs flash_attn 1");
  require(p.n_seq_max % kUniformRows == 0 && p.n_ubatch % kUniformRows == 0 &&
              p.n_ubatch >= p.n_seq_max,
          "deterministic needs n_seq_max and n_ubatch to be multiples of " +
              std::to_string(kUniformRows) + ", n_ubatch the larger one");
  // If both types are f16 or f32, ggml selects one of three attention kernels by the
  // shape of the batch.
  const auto is_float = [](int32_t type) {
    return type < 0 || type == GGML_TYPE_F16 || type == GGML_TYPE_F32;
  };
  require(!is_float(p.type_k) || !is_float(p.type_v),
          "deterministic needs a type_k or type_v other than f16 and f32");
  if (has_recurrent_states(model)) {
    throw Error(
        LH_CONTEXT_ERROR,
        "deterministic is not possible with a recurrent model, whose state cannot "
        "be cut");
  }
}

void check_rope(const lh_engine_params& p) {
  require_range("rope_scaling_type", p.rope_scaling_type,
                LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED, LLAMA_ROPE_SCALING_TYPE_MAX_VALUE);
  require_range("yarn_orig_ctx", p.yarn_orig_ctx, 0, INT32_MAX);
  const std::pair<const char*, float> values[] = {
      {"rope_freq_base", p.rope_freq_base},   {"rope_freq_scale", p.rope_freq_scale},
      {"yarn_ext_factor", p.yarn_ext_factor}, {"yarn_attn_factor", p.yarn_attn_factor},
      {"yarn_beta_fast", p.yarn_beta_fast},   {"yarn_beta_slow", p.yarn_beta_slow}};
  for (const auto& [name, value] : values) {
    const bool may_be_negative = name[0] == 'y';
    require(std::isfinite(value) && (may_be_negative || value >= 0),
            std::string(name) + " must be a finite number" +
                (may_be_negative ? "" : " of at least 0") + ", not " +
                std::to_string(value));
  }
}

void set_rope(llama_context_params& native, const lh_engine_params& p) {
  native.rope_scaling_type = static_cast<llama_rope_scaling_type>(p.rope_scaling_type);
  native.rope_freq_base = p.rope_freq_base;
  native.rope_freq_scale = p.rope_freq_scale;
  native.yarn_ext_factor = p.yarn_ext_factor;
  native.yarn_attn_factor = p.yarn_attn_factor;
  native.yarn_beta_fast = p.yarn_beta_fast;
  native.yarn_beta_slow = p.yarn_beta_slow;
  native.yarn_orig_ctx = static_cast<uint32_t>(p.yarn_orig_ctx);
}

// Context length of the training, in tokens, before any extension of the context.
int32_t n_ctx_orig(const llama_model* model) {
  char text[64] = "";
  if (llama_model_meta_val_str(model, "general.architecture", text, sizeof(text)) >= 0) {
    const std::string key = std::string(text) + ".rope.scaling.original_context_length";
    if (llama_model_meta_val_str(model, key.c_str(), text, sizeof(text)) >= 0) {
      return static_cast<int32_t>(std::strtol(text, nullptr, 10));
    }
  }
  return llama_model_n_ctx_train(model);
}

void check_sizes(const lh_engine_params& p) {
  require_range("n_ctx", p.n_ctx, 1, INT32_MAX);
  require_range("n_seq_max", p.n_seq_max, 1,
                static_cast<int64_t>(llama_max_parallel_sequences()));
  require_range("n_batch", p.n_batch, p.n_seq_max, INT32_MAX);
  require_range("n_ubatch", p.n_ubatch, 1, p.n_batch);
  require_range("n_threads", p.n_threads, 0, 1024);
  require_range("n_threads_batch", p.n_threads_batch, 0, 1024);
  require_range("flash_attn", p.flash_attn, -1, 1);
  require_range("type_k", p.type_k, -1, GGML_TYPE_COUNT - 1);
  require_range("type_v", p.type_v, -1, GGML_TYPE_COUNT - 1);
}

// Maximum number of tokens of a batch. It is chosen so that a prompt is split at the same
// positions with and without concurrent answers. (In a pool, libllama would compute
// tokens beyond n_ubatch separately.)
uint32_t batch_capacity(const lh_engine_params& p) {
  const bool on_top = p.kv_unified == 0 && p.deterministic == 0;
  return static_cast<uint32_t>(p.n_batch) +
         (on_top ? static_cast<uint32_t>(p.n_seq_max) : 0);
}

// ggml places its tensors one after the other, aligned to 32 bytes. Some tensors hold 4
// bytes per output and per token of the reserved size, which is n_ubatch rounded up to a
// multiple of n_seq_max. Unless the size of these tensors is a multiple of the 64 bytes
// of a cache line, all later tensors straddle two lines, see docs/decisions/0018.
constexpr uint32_t kPerPlace = 8;
constexpr uint32_t kPerLine = 16;

uint32_t aligned_ubatch(const lh_engine_params& p) {
  auto n = static_cast<uint32_t>(p.n_ubatch);
  // Here n_ubatch determines the positions at which a prompt is split. These positions
  // must not depend on n_seq_max.
  if (p.deterministic != 0 && p.n_ubatch < p.n_batch) return n;
  const auto n_seq_max = static_cast<uint32_t>(p.n_seq_max);
  n = round_up(n, n_seq_max);
  while (round_up(n, kPerPlace) % kPerLine != 0) n += n_seq_max;
  return n;
}

// Limits of the number of rows of logits per batch: one row per sequence, or more rows
// for scores within these limits of memory and number. (libllama allocates the rows
// twice.)
constexpr uint64_t kOutputBytes = uint64_t{32} << 20U;
constexpr uint32_t kMostOutputs = 64;

uint32_t n_outputs_max(const lh_model& model, const lh_engine_params& p) {
  const uint64_t row_bytes = sizeof(float) * static_cast<uint64_t>(model.n_vocab());
  const auto n_rows =
      static_cast<uint32_t>(std::min<uint64_t>(kMostOutputs, kOutputBytes / row_bytes));
  return round_up(std::max(static_cast<uint32_t>(p.n_seq_max), n_rows), kPerLine);
}

// Tests whether sequences may be padded, moved, and copied as states. These operations
// are impossible in a pool, with recurrent states (which cannot be truncated), and where
// batches must keep their shapes.
bool has_loose_streams(const lh_model& model, const lh_engine_params& p) {
  return p.kv_unified == 0 && p.deterministic == 0 && !has_recurrent_states(model);
}

llama_context_ptr engine_context(const lh_model& model, const lh_engine_params& params,
                                 std::atomic<bool>* abort_flag) {
  check_params(model, params);
  llama_context_params native = llama_context_default_params();
  native.n_ctx = static_cast<uint32_t>(params.n_ctx);
  native.n_seq_max = static_cast<uint32_t>(params.n_seq_max);
  native.n_ubatch = aligned_ubatch(params);
  native.n_batch = std::max(batch_capacity(params), native.n_ubatch);
  native.n_outputs_max = n_outputs_max(model, params);
  if (params.n_threads > 0) {
    native.n_threads = native.n_threads_batch = params.n_threads;
  }
  if (params.n_threads_batch > 0) native.n_threads_batch = params.n_threads_batch;
  native.kv_unified = params.kv_unified != 0;
  native.flash_attn_type = static_cast<llama_flash_attn_type>(params.flash_attn);
  native.offload_kqv = params.offload_kqv != 0;
  native.swa_full = params.swa_full != 0;
  if (params.type_k >= 0) native.type_k = static_cast<ggml_type>(params.type_k);
  if (params.type_v >= 0) native.type_v = static_cast<ggml_type>(params.type_v);
  set_rope(native, params);
  // A GPU build would compute large batches of layers in host memory on the GPU.
  native.op_offload = params.deterministic == 0;
  llama_context_ptr ctx = make_context(model, native, abort_flag);
  if (llama_get_memory(ctx.get()) == nullptr) {
    throw Error(LH_CONTEXT_ERROR,
                "the model keeps no memory of a text, so it cannot "
                "generate (is it an embedding model?)");
  }
  return ctx;
}

KvCache::Layout cache_layout(const lh_model& model, const lh_engine_params& params) {
  // Cells in GPU memory would be copied by way of host memory.
  const bool on_gpu = params.offload_kqv != 0 && llama_supports_gpu_offload();
  const bool is_loose = has_loose_streams(model, params);
  return {params.n_seq_max, params.kv_unified != 0, is_loose, is_loose && !on_gpu};
}

BatchLimits batch_limits(const lh_model& model, const lh_engine_params& params,
                         const llama_context* ctx) {
  BatchLimits limits{};
  limits.capacity =
      static_cast<int32_t>(std::min(batch_capacity(params), llama_n_batch(ctx)));
  limits.n_prompt = std::min(params.n_batch, limits.capacity);
  limits.n_ubatch = static_cast<int32_t>(llama_n_ubatch(ctx));
  limits.n_ctx_seq = static_cast<int32_t>(llama_n_ctx_seq(ctx));
  limits.n_outputs = static_cast<int32_t>(n_outputs_max(model, params));
  if (has_loose_streams(model, params)) {
    // Padding is removed after the decode, but a sliding window may already have dropped
    // the cells before the padded window.
    const int32_t n_swa = llama_model_n_swa(model.get());
    limits.n_paddable = n_swa > 0 ? std::min(n_swa, limits.n_ctx_seq) : limits.n_ctx_seq;
  }
  limits.has_streams = params.kv_unified == 0;
  limits.has_amx = has_amx();
  limits.is_uniform = params.deterministic != 0;
  const bool has_window = llama_model_n_swa(model.get()) > 0 && params.swa_full == 0;
  limits.mixes_paths = params.kv_unified != 0 && !has_window;
  return limits;
}

// A saved sequence starts with the number of streams. flash_attn determines the type and
// layout of values. Models with short and long rope factors use the long ones for
// sequences that may exceed the original training context.
std::vector<double> make_state_key(const lh_model& model, const lh_engine_params& p,
                                   const llama_context* ctx) {
  const bool unified = p.kv_unified != 0;
  const auto n_ctx_seq = static_cast<int64_t>(llama_n_ctx_seq(ctx));
  return {unified ? 0.0 : p.n_seq_max,
          n_ctx_seq > n_ctx_orig(model.get()) ? 1.0 : 0.0,
          unified ? 1.0 : 0.0,
          p.deterministic != 0 ? 1.0 : 0.0,
          p.swa_full != 0 ? 1.0 : 0.0,
          p.offload_kqv != 0 ? 1.0 : 0.0,
          static_cast<double>(p.flash_attn),
          static_cast<double>(p.type_k),
          static_cast<double>(p.type_v),
          static_cast<double>(p.rope_scaling_type),
          p.rope_freq_base,
          p.rope_freq_scale,
          p.yarn_ext_factor,
          p.yarn_attn_factor,
          p.yarn_beta_fast,
          p.yarn_beta_slow,
          static_cast<double>(p.yarn_orig_ctx)};
}

std::unique_ptr<BatchBuilder> make_builder(const Positions& positions,
                                           const BatchLimits& limits) {
  if (limits.is_uniform) return std::make_unique<UniformBatch>(positions, limits);
  return std::make_unique<MixedBatch>(positions, limits);
}

}  // namespace

bool has_recurrent_states(const lh_model& model) {
  return llama_model_is_recurrent(model.get()) || llama_model_is_hybrid(model.get());
}

void check_params(const lh_model& model, const lh_engine_params& p) {
  check_sizes(p);
  check_rope(p);
  if (p.deterministic != 0) check_deterministic(model, p);
  if (llama_model_has_encoder(model.get()) || !llama_model_has_decoder(model.get())) {
    throw Error(LH_CONTEXT_ERROR,
                "the model has an encoder; only decoder models generate text here");
  }
}

llama_context_ptr make_context(const lh_model& model, llama_context_params native,
                               std::atomic<bool>* abort_flag) {
  native.no_perf = true;
  native.abort_callback = [](void* flag) {
    return static_cast<std::atomic<bool>*>(flag)->load();
  };
  native.abort_callback_data = abort_flag;
  require_memory(kRoom);
  const LargeBlocksApart apart;
  const LogMark mark;
  llama_context_ptr ctx(llama_init_from_model(model.get(), native));
  if (!ctx) {
    throw Error(LH_CONTEXT_ERROR, "no llama_context could be made (n_ctx " +
                                      std::to_string(native.n_ctx) + ", n_seq_max " +
                                      std::to_string(native.n_seq_max) +
                                      "): " + mark.first_problem());
  }
  model.adapters().set(ctx.get());
  return ctx;
}

void compute(llama_context* ctx, const llama_batch& batch,
             const std::atomic<bool>& abort_flag) {
  const auto check_abort = [&abort_flag] {
    if (abort_flag) throw Error(LH_ABORTED, "the computation was aborted");
  };
  check_abort();
  require_memory(kRoom);
  const LogMark mark;
  const bool decodes = llama_get_memory(ctx) != nullptr;
  const int32_t code = decodes ? llama_decode(ctx, batch) : llama_encode(ctx, batch);
  if (code == 0) return;
  check_abort();
  const std::string problem = mark.first_problem();
  throw Error(LH_DECODE_ERROR, std::string(decodes ? "llama_decode" : "llama_encode") +
                                   " returned " + std::to_string(code) +
                                   (problem.empty() ? "" : ": " + problem));
}

// In the deterministic mode, prompts are padded to whole groups of rows.
Stage::Stage(const lh_model& model, const lh_engine_params& p,
             std::atomic<bool>* abort_flag, Statistics& statistics)
    : params(p),
      ctx(engine_context(model, p, abort_flag)),
      limits(batch_limits(model, p, ctx.get())),
      n_prompt_max(limits.n_ctx_seq - (limits.is_uniform ? kUniformRows - 1 : 0)),
      state_key(make_state_key(model, p, ctx.get())),
      kv(ctx.get(), cache_layout(model, p)),
      builder(make_builder(kv.positions(), limits)),
      sampler(model, ctx.get(), kv, statistics, limits.n_outputs,
              own_threads() ? llama_n_threads_batch(ctx.get()) : 1) {}

}  // namespace lh
