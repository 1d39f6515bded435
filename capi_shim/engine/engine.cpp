#include "engine.hpp"

#include <algorithm>
#include <utility>

#include "guard.hpp"
#include "log.hpp"
#include "mixed_batch.hpp"
#include "openmp.hpp"
#include "threads.hpp"
#include "uniform_batch.hpp"

using lh::Client;
using lh::Error;

namespace {

std::unique_ptr<lh::BatchBuilder> make_builder(bool uniform,
                                               const lh::Positions& positions,
                                               const lh::BatchLimits& limits) {
  if (uniform) return std::make_unique<lh::UniformBatch>(positions, limits);
  return std::make_unique<lh::MixedBatch>(positions, limits);
}

// The deterministic mode pads prompts to whole groups of rows.
int32_t n_prompt_max(const llama_context* ctx, bool deterministic) {
  return static_cast<int32_t>(llama_n_ctx_seq(ctx)) -
         (deterministic ? lh::kUniformRows - 1 : 0);
}

}  // namespace

// ---- life -------------------------------------------------------------------------

lh_engine::lh_engine(const lh_model& model, const lh_engine_params& params,
                     std::atomic<bool>* abort_flag)
    : model_(model),
      abort_flag_(abort_flag == nullptr ? &own_abort_flag_ : abort_flag),
      ctx_(lh::make_context(model, params, abort_flag_)),
      is_recurrent_(lh::has_recurrent_states(model)),
      n_prompt_max_(n_prompt_max(ctx_.get(), params.deterministic != 0)),
      limits_(lh::batch_limits(model, params, ctx_.get())),
      debug_(lh::debug_level()),
      kv_(ctx_.get(), lh::cache_layout(model, params)),
      builder_(make_builder(params.deterministic != 0, kv_.positions(), limits_)),
      step_sampler_(model, ctx_.get(), kv_, stats_,
                    lh::own_threads() ? llama_n_threads_batch(ctx_.get()) : 1) {}

lh_engine::~lh_engine() { lh::end_idle_threads(); }

// ---- what is there ------------------------------------------------------------------

lh_engine_info lh_engine::info() {
  const std::scoped_lock lock(mutex_);
  lh_engine_info out{};
  out.n_ctx = static_cast<int32_t>(llama_n_ctx(ctx_.get()));
  out.n_ctx_seq = limits_.n_ctx_seq;
  out.n_seq_max = kv_.n_seq_max();
  out.n_batch = limits_.n_prompt;
  out.n_ubatch = limits_.n_ubatch;
  out.kv_unified = limits_.has_streams ? 0 : 1;
  out.n_cells_used = kv_.n_cells_used();
  for (auto& [id, client] : clients_) {
    if (client.state != LH_STATE_PREFILL) continue;
    out.n_cells_pending += client.n_pending(kv_.positions());
  }
  out.n_seq_used = kv_.n_seq_used();
  return out;
}

lh_stats lh_engine::stats() {
  const std::scoped_lock lock(mutex_);
  return stats_;
}

void lh_engine::restart_high_water() {
  const std::scoped_lock lock(mutex_);
  stats_.n_cells_max = kv_.n_cells_used();
}

int32_t lh_engine::seq_pos_max(int32_t seq_id) {
  const std::scoped_lock lock(mutex_);
  lh::require_range("seq_id", seq_id, 0, kv_.n_seq_max() - 1);
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
  if (client.state == LH_STATE_PAUSED) {
    out.n_cells = client.n_saved;
    out.n_pending = client.n_tokens() - client.n_saved;
  } else if (client.seq_id >= 0) {
    out.n_cells = kv_.n_own_cells(client.seq_id);
  }
  if (client.is_active()) out.n_pending = client.n_pending(kv_.positions());
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
  lh::require(clients_.count(request.id) == 0,
              "request " + std::to_string(request.id) + " is already there");
  Client client = make_client(request);
  const Client* prefix = find_prefix(request);
  if (!client.is_prefix()) {
    client.sampler =
        std::make_unique<lh::Sampler>(model_, *request.sampling, sampler_cache_);
    client.seed = client.sampler->seed();
    for (const int32_t token : client.tokens) client.sampler->see(token);
  }
  Client& slot = clients_.emplace(request.id, std::move(client)).first->second;
  try {
    slot.seq_id = kv_.acquire(slot.is_prefix());
    if (prefix != nullptr) slot.n_reused = kv_.fork(prefix->seq_id, slot.seq_id);
  } catch (...) {
    slot.give_back(kv_);
    clients_.erase(request.id);
    throw;
  }
  stats_.n_reused += slot.n_reused;
  slot.order = n_submitted_++;
}

Client lh_engine::make_client(const lh_request& request) {
  lh::require_range("n_tokens", request.n_tokens, 1, n_prompt_max_);
  lh::require_range("max_tokens", request.max_tokens, 0, INT32_MAX);
  lh::require_range("n_stop", request.n_stop, 0, 1024);
  lh::deref(request.tokens, "tokens");
  if (request.max_tokens > 0) lh::deref(request.sampling, "sampling");
  Client client;
  client.id = request.id;
  client.tokens.assign(request.tokens, request.tokens + request.n_tokens);
  client.n_prompt = request.n_tokens;
  client.max_tokens = request.max_tokens;
  client.text = lh::TextBuffer(stops_of(request));
  return client;
}

// Null if the request asks for none.
Client* lh_engine::find_prefix(const lh_request& request) {
  if (request.fork_from < 0) return nullptr;
  Client& prefix = find(request.fork_from);
  lh::require(prefix.state == LH_STATE_HELD,
              "fork_from " + std::to_string(request.fork_from) + " is not held");
  lh::require(prefix.n_tokens() < request.n_tokens &&
                  std::equal(prefix.tokens.begin(), prefix.tokens.end(), request.tokens),
              "request " + std::to_string(request.id) +
                  " does not start with the tokens of its fork_from");
  return &prefix;
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

void lh_engine::pause(int64_t id) {
  const std::scoped_lock lock(mutex_);
  Client& client = find(id);
  lh::require(client.is_active(), "request " + std::to_string(id) + " is not running");
  const int32_t position = kv_.positions().get(client.seq_id);
  const bool is_saved = position > 0 && kv_.save(client.seq_id, client.saved);
  client.n_saved = is_saved ? position : 0;  // 0: all is computed again
  client.give_back(kv_);
  client.state = LH_STATE_PAUSED;
  ++stats_.n_pauses;
}

void lh_engine::resume(int64_t id) {
  const std::scoped_lock lock(mutex_);
  Client& client = find(id);
  lh::require(client.state == LH_STATE_PAUSED,
              "request " + std::to_string(id) + " is not paused");
  client.seq_id = kv_.acquire(client.is_prefix());
  // What a copy between streams has yet to read may be there: compute it all again.
  if (kv_.has_pending_copies()) client.n_saved = 0;
  if (client.n_saved > 0 && !kv_.restore(client.saved, client.n_saved, client.seq_id)) {
    client.give_back(kv_);
    throw Error(LH_NO_SPACE, "no room for the " + std::to_string(client.n_saved) +
                                 " KV cells of request " + std::to_string(id));
  }
  client.saved = {};
  client.verified = false;
  const bool is_whole =
      client.n_generated() > 0 && client.n_pending(kv_.positions()) == 1;
  client.state = is_whole ? LH_STATE_DECODE : LH_STATE_PREFILL;
}

void lh_engine::end(int64_t id, lh_finish reason, const char* message) {
  const std::scoped_lock lock(mutex_);
  Client& client = find(id);
  lh::require(reason == LH_FINISH_CANCELLED || reason == LH_FINISH_ERROR,
              "reason must be LH_FINISH_CANCELLED or LH_FINISH_ERROR");
  if (!client.has_ended()) client.end(kv_, reason, message == nullptr ? "" : message);
}

void lh_engine::release(int64_t id) {
  const std::scoped_lock lock(mutex_);
  find(id).give_back(kv_);
  clients_.erase(id);
}

void lh_engine::reset() {
  const std::scoped_lock lock(mutex_);
  for (auto& [id, client] : clients_) client.give_back(kv_);
  clients_.clear();
  for (int32_t seq_id = 0; seq_id < kv_.n_seq_max(); ++seq_id) kv_.clear(seq_id);
}
