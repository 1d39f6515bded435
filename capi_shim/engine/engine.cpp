#include "engine.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "amx.hpp"
#include "guard.hpp"
#include "log.hpp"
#include "openmp.hpp"
#include "round_up.hpp"
#include "threads.hpp"

using lh::Client;
using lh::Error;

namespace {

bool on_abort(void* flag) { return static_cast<std::atomic<bool>*>(flag)->load(); }

bool has_recurrent_states(const lh_model& model) {
  return llama_model_is_recurrent(model.get()) || llama_model_is_hybrid(model.get());
}

// What makes logits the same whatever shape a batch has: see docs/decisions/0012.
void check_deterministic(const lh_model& model, const lh_engine_params& p) {
  lh::require(p.kv_unified == 0, "deterministic needs kv_unified 0");
  lh::require(p.flash_attn == 1, "deterministic needs flash_attn 1");
  lh::require(p.n_seq_max % lh::kUniformRows == 0 && p.n_ubatch % lh::kUniformRows == 0 &&
                  p.n_ubatch >= p.n_seq_max,
              "deterministic needs n_seq_max and n_ubatch to be multiples of " +
                  std::to_string(lh::kUniformRows) + ", n_ubatch the larger one");
  // With these attention is computed by one of three kernels, as the shape has it.
  const auto is_float = [](int32_t type) {
    return type < 0 || type == GGML_TYPE_F16 || type == GGML_TYPE_F32;
  };
  lh::require(!is_float(p.type_k) || !is_float(p.type_v),
              "deterministic needs another type_k or type_v than f16 and f32");
  if (has_recurrent_states(model)) {
    throw Error(
        LH_CONTEXT_ERROR,
        "deterministic is not to be had with a recurrent model, whose state cannot "
        "be cut");
  }
}

void check_rope(const lh_engine_params& p) {
  lh::require_range("rope_scaling_type", p.rope_scaling_type,
                    LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED,
                    LLAMA_ROPE_SCALING_TYPE_MAX_VALUE);
  lh::require_range("yarn_orig_ctx", p.yarn_orig_ctx, 0, INT32_MAX);
  const std::pair<const char*, float> values[] = {
      {"rope_freq_base", p.rope_freq_base},   {"rope_freq_scale", p.rope_freq_scale},
      {"yarn_ext_factor", p.yarn_ext_factor}, {"yarn_attn_factor", p.yarn_attn_factor},
      {"yarn_beta_fast", p.yarn_beta_fast},   {"yarn_beta_slow", p.yarn_beta_slow}};
  for (const auto& [name, value] : values) {
    const bool may_be_negative = name[0] == 'y';
    lh::require(std::isfinite(value) && (may_be_negative || value >= 0),
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

void check(const lh_model& model, const lh_engine_params& p) {
  lh::require_range("n_ctx", p.n_ctx, 1, INT32_MAX);
  lh::require_range("n_seq_max", p.n_seq_max, 1,
                    static_cast<int64_t>(llama_max_parallel_sequences()));
  lh::require_range("n_batch", p.n_batch, p.n_seq_max, INT32_MAX);
  lh::require_range("n_ubatch", p.n_ubatch, 1, p.n_batch);
  lh::require_range("n_threads", p.n_threads, 0, 1024);
  lh::require_range("n_threads_batch", p.n_threads_batch, 0, 1024);
  lh::require_range("flash_attn", p.flash_attn, -1, 1);
  lh::require_range("type_k", p.type_k, -1, GGML_TYPE_COUNT - 1);
  lh::require_range("type_v", p.type_v, -1, GGML_TYPE_COUNT - 1);
  check_rope(p);
  if (p.deterministic != 0) check_deterministic(model, p);
  if (llama_model_has_encoder(model.get()) || !llama_model_has_decoder(model.get())) {
    throw Error(LH_CONTEXT_ERROR,
                "the model has an encoder; only decoder models generate text here");
  }
}

// Most tokens of a batch. Prompts are cut where they are when alone, however many answers
// are beside them. (In a pool libllama would compute what is over n_ubatch by itself.)
uint32_t batch_capacity(const lh_engine_params& p) {
  const bool on_top = p.kv_unified == 0 && p.deterministic == 0;
  return static_cast<uint32_t>(p.n_batch) +
         (on_top ? static_cast<uint32_t>(p.n_seq_max) : 0);
}

// ggml puts what it computes at multiples of 32 bytes, one thing behind the other, and
// among it numbers of 4 bytes, one for each output and each token that libllama makes
// room for: n_ubatch rounded up to a multiple of n_seq_max. Unless these fill cache lines
// of 64 bytes, all that comes behind them lies across two: docs/decisions/0025.
constexpr uint32_t kPerPlace = 8;
constexpr uint32_t kPerLine = 16;

uint32_t aligned_ubatch(const lh_engine_params& p) {
  auto n = static_cast<uint32_t>(p.n_ubatch);
  // Then it decides where a prompt is cut, which must not depend on n_seq_max.
  if (p.deterministic != 0 && p.n_ubatch < p.n_batch) return n;
  const auto n_seq_max = static_cast<uint32_t>(p.n_seq_max);
  n = lh::round_up(n, n_seq_max);
  while (lh::round_up(n, kPerPlace) % kPerLine != 0) n += n_seq_max;
  return n;
}

// Fillers are removed again; a window of attention may have lost what lies before it to
// them.
int32_t n_fillable(const lh_model& model, const llama_context* ctx) {
  const auto n_ctx_seq = static_cast<int32_t>(llama_n_ctx_seq(ctx));
  const int32_t n_swa = llama_model_n_swa(model.get());
  return n_swa > 0 ? std::min(n_swa, n_ctx_seq) : n_ctx_seq;
}

}  // namespace

// ---- life -------------------------------------------------------------------------

lh_engine::ContextPtr lh_engine::make_context(const lh_model& model,
                                              const lh_engine_params& params,
                                              lh_engine* self) {
  check(model, params);
  llama_context_params native = llama_context_default_params();
  native.n_ctx = static_cast<uint32_t>(params.n_ctx);
  native.n_seq_max = static_cast<uint32_t>(params.n_seq_max);
  native.n_ubatch = aligned_ubatch(params);
  native.n_batch = std::max(batch_capacity(params), native.n_ubatch);
  // One row of logits per sequence, not one per token of a batch.
  native.n_outputs_max = lh::round_up(native.n_seq_max, kPerLine);
  if (params.n_threads > 0) {
    native.n_threads = params.n_threads;
    native.n_threads_batch = params.n_threads;
  }
  if (params.n_threads_batch > 0) native.n_threads_batch = params.n_threads_batch;
  native.kv_unified = params.kv_unified != 0;
  native.flash_attn_type = static_cast<llama_flash_attn_type>(params.flash_attn);
  native.offload_kqv = params.offload_kqv != 0;
  native.swa_full = params.swa_full != 0;
  if (params.type_k >= 0) native.type_k = static_cast<ggml_type>(params.type_k);
  if (params.type_v >= 0) native.type_v = static_cast<ggml_type>(params.type_v);
  set_rope(native, params);
  native.no_perf = true;
  native.abort_callback = on_abort;
  native.abort_callback_data = self->abort_flag_;
  lh::require_memory(lh::kRoom);
  const lh::LogMark mark;
  ContextPtr ctx(llama_init_from_model(model.get(), native));
  if (!ctx) {
    throw Error(LH_CONTEXT_ERROR, "no llama_context could be made (n_ctx " +
                                      std::to_string(params.n_ctx) + ", n_seq_max " +
                                      std::to_string(params.n_seq_max) +
                                      "): " + mark.first_problem());
  }
  if (llama_get_memory(ctx.get()) == nullptr) {
    throw Error(LH_CONTEXT_ERROR,
                "the model keeps no memory of a text, so it cannot "
                "generate (is it an embedding model?)");
  }
  model.adapters().set(model.get(), ctx.get());
  return ctx;
}

lh_engine::lh_engine(const lh_model& model, const lh_engine_params& params,
                     std::atomic<bool>* abort_flag)
    : model_(model),
      abort_flag_(abort_flag == nullptr ? &own_abort_flag_ : abort_flag),
      ctx_(make_context(model, params, this)),
      kv_unified_(params.kv_unified != 0),
      is_recurrent_(has_recurrent_states(model)),
      deterministic_(params.deterministic != 0),
      has_amx_(lh::has_amx()),
      n_seq_max_(params.n_seq_max),
      n_threads_(lh::own_threads() ? llama_n_threads_batch(ctx_.get()) : 1),
      n_fillable_(n_fillable(model, ctx_.get())),
      loose_streams_(!kv_unified_ && !deterministic_ && !is_recurrent_),
      // Cells of a GPU would travel through the host.
      copies_states_(loose_streams_ &&
                     !(params.offload_kqv != 0 && llama_supports_gpu_offload())),
      positions_(llama_get_memory(ctx_.get()), params.n_seq_max),
      pool_(positions_, params.n_seq_max),
      batch_(static_cast<int32_t>(
          std::min(batch_capacity(params), llama_n_batch(ctx_.get())))),
      n_batch_(std::min(params.n_batch, batch_.capacity())),
      rows_(static_cast<size_t>(params.n_seq_max), lh::LogitRow(model.n_vocab())),
      debug_(lh::debug_level()) {}

lh_engine::~lh_engine() { lh::end_idle_threads(); }

// ---- what is there ------------------------------------------------------------------

lh_engine_info lh_engine::info() {
  const std::scoped_lock lock(mutex_);
  lh_engine_info out{};
  out.n_ctx = static_cast<int32_t>(llama_n_ctx(ctx_.get()));
  out.n_ctx_seq = static_cast<int32_t>(llama_n_ctx_seq(ctx_.get()));
  out.n_seq_max = n_seq_max_;
  out.n_batch = n_batch_;
  out.n_ubatch = static_cast<int32_t>(llama_n_ubatch(ctx_.get()));
  out.kv_unified = kv_unified_ ? 1 : 0;
  out.n_cells_used = n_cells_used_;
  for (auto& [id, client] : clients_) {
    if (client.state == LH_STATE_PREFILL) out.n_cells_pending += n_pending(client);
  }
  out.n_seq_used = pool_.n_used();
  return out;
}

lh_stats lh_engine::stats() {
  const std::scoped_lock lock(mutex_);
  return stats_;
}

void lh_engine::restart_high_water() {
  const std::scoped_lock lock(mutex_);
  stats_.n_cells_max = n_cells_used_;
}

int32_t lh_engine::seq_pos_max(int32_t seq_id) {
  const std::scoped_lock lock(mutex_);
  lh::require_range("seq_id", seq_id, 0, n_seq_max_ - 1);
  return llama_memory_seq_pos_max(llama_get_memory(ctx_.get()), seq_id);
}

lh_client_info lh_engine::get(int64_t id) {
  const std::scoped_lock lock(mutex_);
  const Client& client = find(id);
  lh_client_info out{};
  out.state = client.state;
  out.finish = client.finish;
  out.n_prompt = client.n_prompt;
  out.n_reused = client.n_reused;
  const bool paused = client.state == LH_STATE_PAUSED;
  out.n_cells = paused ? client.n_saved : client.n_own_cells;
  if (paused) out.n_pending = static_cast<int32_t>(client.tokens.size()) - client.n_saved;
  if (client.is_active()) out.n_pending = n_pending(client);
  out.n_generated = client.n_generated();
  out.seed = client.seed;
  out.tokens = client.tokens.data() + client.n_prompt;
  out.text = client.text.text().c_str();
  // Which choice it is shows at its end.
  const bool is_open = client.sampler && client.sampler->choices() != nullptr;
  out.n_text = is_open ? 0 : static_cast<int32_t>(client.text.n_stable());
  out.message = client.message.c_str();
  out.complete = client.is_complete ? 1 : 0;
  return out;
}

Client& lh_engine::find(int64_t id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) {
    throw Error(LH_NOT_FOUND, "there is no request with id " + std::to_string(id));
  }
  return found->second;
}

// ---- requests -----------------------------------------------------------------------

void lh_engine::submit(const lh_request& request) {
  const std::scoped_lock lock(mutex_);
  const std::string name = "request " + std::to_string(request.id);
  lh::require(clients_.count(request.id) == 0, name + " is already there");
  const int32_t spare = deterministic_ ? lh::kUniformRows - 1 : 0;
  lh::require_range("n_tokens", request.n_tokens, 1,
                    static_cast<int64_t>(llama_n_ctx_seq(ctx_.get())) - spare);
  lh::require_range("max_tokens", request.max_tokens, 0, INT32_MAX);
  lh::require_range("n_stop", request.n_stop, 0, 1024);
  lh::deref(request.tokens, "tokens");
  const bool is_prefix = request.max_tokens == 0;
  if (!is_prefix) lh::deref(request.sampling, "sampling");

  Client client;
  client.id = request.id;
  client.tokens.assign(request.tokens, request.tokens + request.n_tokens);
  client.n_prompt = request.n_tokens;
  client.max_tokens = request.max_tokens;
  client.text = lh::TextBuffer(stops_of(request));

  Client* prefix = request.fork_from < 0 ? nullptr : &find(request.fork_from);
  if (prefix != nullptr) {
    lh::require(prefix->state == LH_STATE_HELD,
                "fork_from " + std::to_string(request.fork_from) + " is not held");
    const auto n = prefix->tokens.size();
    lh::require(n < client.tokens.size() &&
                    std::equal(prefix->tokens.begin(), prefix->tokens.end(),
                               client.tokens.begin()),
                name + " does not start with the tokens of its fork_from");
  }
  if (!is_prefix) {
    client.sampler =
        std::make_unique<lh::Sampler>(model_, *request.sampling, sampler_cache_);
    client.seed = client.sampler->seed();
    for (const int32_t token : client.tokens) client.sampler->see(token);
  }
  Client& slot = clients_.emplace(request.id, std::move(client)).first->second;
  try {
    slot.seq_id = acquire_sequence(is_prefix);
    if (prefix != nullptr) fork(slot, *prefix);
  } catch (...) {
    give_back(slot);
    clients_.erase(request.id);
    throw;
  }
  slot.order = n_submitted_++;
}

// Those of the last request, if they are the same: they may be large.
lh::TextBuffer::Stops lh_engine::stops_of(const lh_request& request) {
  if (request.n_stop > 0) {
    lh::deref(request.stop, "stop");
    lh::deref(request.stop_size, "stop_size");
  }
  std::vector<std::string> stops;
  for (int32_t i = 0; i < request.n_stop; ++i) {
    const int32_t size = request.stop_size[i];
    lh::require_range("stop_size", size, 1, INT32_MAX);
    stops.emplace_back(&lh::deref(request.stop[i], "stop element"),
                       static_cast<size_t>(size));
  }
  if (!stops_ || *stops_ != stops) {
    stops_ = std::make_shared<const std::vector<std::string>>(std::move(stops));
  }
  return stops_;
}

int32_t lh_engine::acquire_sequence(bool is_prefix) {
  const int32_t seq_id = is_prefix ? pool_.acquire_last() : pool_.acquire();
  if (seq_id < 0) {
    throw Error(LH_NO_SPACE,
                "all " + std::to_string(n_seq_max_) + " sequence ids are in use");
  }
  return seq_id;
}

void lh_engine::fork(Client& child, Client& prefix) {
  if (positions_.get(prefix.seq_id) == 0) return;  // its state was lost
  copy_cells(prefix, child.seq_id);
  child.n_reused = static_cast<int32_t>(prefix.tokens.size());
  positions_.set(child.seq_id, child.n_reused);
  stats_.n_reused += child.n_reused;
  if (kv_unified_) {
    child.shared_cells = prefix.shared_cells;
  } else {
    child.n_own_cells = child.n_reused;
    n_cells_used_ += child.n_reused;
  }
}

// Of the whole sequence: libllama asserts on a partial copy between streams. Between
// these it copies all that a stream has room for, with the next decode.
void lh_engine::copy_cells(const Client& from, int32_t to) {
  if (copy_state(from, to)) return;
  llama_memory_seq_cp(llama_get_memory(ctx_.get()), from.seq_id, to, -1, -1);
  copies_pending_ = !kv_unified_;
  state_of_ = nullptr;
}

// Cells that do not nearly fill their stream are copied faster as a state, at once, and
// read but once for all copies until the next decode: docs/decisions/0029. False: they
// were not.
bool lh_engine::copy_state(const Client& from, int32_t to) {
  const int64_t n_cells = llama_n_ctx_seq(ctx_.get());
  const int64_t n_used = positions_.get(from.seq_id);
  if (!copies_states_ || 3 * n_used > 2 * n_cells) return false;
  if (state_of_ != &from) {
    state_of_ = nullptr;
    if (!save(from.seq_id, state_)) return false;
    state_of_ = &from;
  }
  return restore(state_, to);
}

void lh_engine::give_back(Client& client) {
  if (client.seq_id >= 0) pool_.release(client.seq_id);
  client.seq_id = -1;
  uncount_cells(client);
}

void lh_engine::uncount_cells(Client& client) {
  n_cells_used_ -= client.n_own_cells;
  client.n_own_cells = 0;
  client.shared_cells.reset();
}

void lh_engine::finish(Client& client, lh_finish reason, const char* message) {
  give_back(client);
  client.state = reason == LH_FINISH_ERROR ? LH_STATE_FAILED : LH_STATE_FINISHED;
  client.finish = reason;
  client.message = message;
  client.text.finish();
  if (client.sampler) judge(client);
  client.sampler.reset();
  client.saved.clear();
}

// Whether the answer came to its own end, and which choice it is.
void lh_engine::judge(Client& client) {
  const std::vector<int32_t> answer(client.tokens.begin() + client.n_prompt,
                                    client.tokens.end());
  const std::string& text = client.text.text();
  client.is_complete =
      client.finish == LH_FINISH_EOG ||
      (client.finish == LH_FINISH_STOP && client.sampler->is_whole(answer, text.size()));
  const lh::Choices* choices = client.sampler->choices();
  if (choices == nullptr) return;
  const std::string* choice = client.is_complete ? choices->find(text, true) : nullptr;
  client.text.replace(choice == nullptr ? choices->bare(text) : *choice);
}

void lh_engine::pause(int64_t id) {
  const std::scoped_lock lock(mutex_);
  Client& client = find(id);
  lh::require(client.is_active(), "request " + std::to_string(id) + " is not running");
  const int32_t position = positions_.get(client.seq_id);
  const bool is_saved = position > 0 && save(client.seq_id, client.saved);
  client.n_saved = is_saved ? position : 0;  // 0: all is computed again
  give_back(client);
  client.state = LH_STATE_PAUSED;
  ++stats_.n_pauses;
}

// False where that fails, for want of memory perhaps, and while copies between streams
// have yet to be made: cells may be missing, and others not be written to.
bool lh_engine::save(int32_t seq_id, std::vector<uint8_t>& state) {
  if (copies_pending_) return false;
  try {
    state.resize(llama_state_seq_get_size(ctx_.get(), seq_id));
    state.resize(
        llama_state_seq_get_data(ctx_.get(), state.data(), state.size(), seq_id));
  } catch (...) {
    state = {};
  }
  return !state.empty();
}

// Whether the saved cells are back.
bool lh_engine::restore(const std::vector<uint8_t>& state, int32_t seq_id) {
  try {
    return llama_state_seq_set_data(ctx_.get(), state.data(), state.size(), seq_id) > 0;
  } catch (...) {
    return false;
  }
}

void lh_engine::resume(int64_t id) {
  const std::scoped_lock lock(mutex_);
  Client& client = find(id);
  lh::require(client.state == LH_STATE_PAUSED,
              "request " + std::to_string(id) + " is not paused");
  client.seq_id = acquire_sequence(client.is_prefix());
  // What a copy between streams has yet to read may be there: compute it all again.
  if (copies_pending_) client.n_saved = 0;
  if (client.n_saved > 0) {
    if (!restore(client.saved, client.seq_id)) {
      give_back(client);
      throw Error(LH_NO_SPACE, "no room for the " + std::to_string(client.n_saved) +
                                   " KV cells of request " + std::to_string(id));
    }
    positions_.set(client.seq_id, client.n_saved);
    client.n_own_cells = client.n_saved;
    n_cells_used_ += client.n_saved;
  }
  client.saved = {};
  client.verified = false;
  const bool is_whole = client.n_generated() > 0 && n_pending(client) == 1;
  client.state = is_whole ? LH_STATE_DECODE : LH_STATE_PREFILL;
}

void lh_engine::end(int64_t id, lh_finish reason, const char* message) {
  const std::scoped_lock lock(mutex_);
  Client& client = find(id);
  lh::require(reason == LH_FINISH_CANCELLED || reason == LH_FINISH_ERROR,
              "reason must be LH_FINISH_CANCELLED or LH_FINISH_ERROR");
  if (!client.has_ended()) finish(client, reason, message == nullptr ? "" : message);
}

void lh_engine::release(int64_t id) {
  const std::scoped_lock lock(mutex_);
  give_back(find(id));
  clients_.erase(id);
}

void lh_engine::reset() {
  const std::scoped_lock lock(mutex_);
  for (auto& [id, client] : clients_) give_back(client);
  clients_.clear();
  n_cells_used_ = 0;
  for (int32_t seq_id = 0; seq_id < n_seq_max_; ++seq_id) positions_.clear(seq_id);
}
