#include "engine.hpp"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "guard.hpp"
#include "log.hpp"

using lh::Client;
using lh::Error;

namespace {

constexpr int32_t kThrew = -100;  // decode_code when llama_decode threw

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string describe_decode_code(int32_t code) {
  switch (code) {
    case 1:
      return "no free KV cells";
    case -1:
      return "invalid batch";
    case kThrew:
      return "an exception";
    default:
      return "failure while computing";
  }
}

bool on_abort(void* flag) { return static_cast<std::atomic<bool>*>(flag)->load(); }

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
  if (llama_model_has_encoder(model.get()) || !llama_model_has_decoder(model.get())) {
    throw Error(LH_CONTEXT_ERROR,
                "the model has an encoder; only decoder models generate text here");
  }
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
  native.n_batch = static_cast<uint32_t>(params.n_batch);
  native.n_ubatch = static_cast<uint32_t>(params.n_ubatch);
  // One row of logits per sequence, not one per token of a batch.
  native.n_outputs_max = static_cast<uint32_t>(params.n_seq_max);
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
  native.no_perf = true;
  native.abort_callback = on_abort;
  native.abort_callback_data = self->abort_flag_;
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
  return ctx;
}

lh_engine::lh_engine(const lh_model& model, const lh_engine_params& params,
                     std::atomic<bool>* abort_flag)
    : model_(model),
      abort_flag_(abort_flag == nullptr ? &own_abort_flag_ : abort_flag),
      ctx_(make_context(model, params, this)),
      kv_unified_(params.kv_unified != 0),
      n_seq_max_(params.n_seq_max),
      positions_(llama_get_memory(ctx_.get()), params.n_seq_max),
      pool_(positions_, params.n_seq_max),
      batch_(static_cast<int32_t>(llama_n_batch(ctx_.get()))),
      debug_(lh::debug_level()) {}

lh_engine::~lh_engine() = default;

// ---- what is there ------------------------------------------------------------------

lh_engine_info lh_engine::info() {
  const std::lock_guard<std::mutex> lock(mutex_);
  lh_engine_info out{};
  out.n_ctx = static_cast<int32_t>(llama_n_ctx(ctx_.get()));
  out.n_ctx_seq = static_cast<int32_t>(llama_n_ctx_seq(ctx_.get()));
  out.n_seq_max = n_seq_max_;
  out.n_batch = batch_.capacity();
  out.n_ubatch = static_cast<int32_t>(llama_n_ubatch(ctx_.get()));
  out.kv_unified = kv_unified_ ? 1 : 0;
  out.n_cells_used = n_cells_used_;
  out.n_seq_used = pool_.n_used();
  return out;
}

lh_stats lh_engine::stats() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

int32_t lh_engine::seq_pos_max(int32_t seq_id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  lh::require_range("seq_id", seq_id, 0, n_seq_max_ - 1);
  return llama_memory_seq_pos_max(llama_get_memory(ctx_.get()), seq_id);
}

lh_client_info lh_engine::get(int64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
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
  out.n_text = static_cast<int32_t>(client.text.n_stable());
  out.message = client.message.c_str();
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
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string name = "request " + std::to_string(request.id);
  lh::require(clients_.count(request.id) == 0, name + " is already there");
  lh::require_range("n_tokens", request.n_tokens, 1, llama_n_ctx_seq(ctx_.get()));
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
  client.text = lh::TextBuffer(std::move(stops));

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
  client.seq_id = acquire_sequence();
  client.order = n_submitted_++;
  Client& slot = clients_.emplace(request.id, std::move(client)).first->second;
  if (prefix != nullptr) fork(slot, *prefix);
}

int32_t lh_engine::acquire_sequence() {
  const int32_t seq_id = pool_.acquire();
  if (seq_id < 0) {
    throw Error(LH_NO_SPACE,
                "all " + std::to_string(n_seq_max_) + " sequence ids are in use");
  }
  return seq_id;
}

void lh_engine::fork(Client& child, Client& prefix) {
  // The whole sequence: libllama asserts on a partial copy between streams.
  llama_memory_seq_cp(llama_get_memory(ctx_.get()), prefix.seq_id, child.seq_id, -1, -1);
  child.n_reused = static_cast<int32_t>(prefix.tokens.size());
  positions_.set(child.seq_id, child.n_reused);
  stats_.n_reused += child.n_reused;
  if (kv_unified_) {
    child.shared_cells = prefix.shared_cells;
  } else {
    child.n_own_cells = child.n_reused;
    n_cells_used_ += child.n_reused;
    copies_pending_ = true;
  }
}

void lh_engine::give_back(Client& client) {
  if (client.seq_id >= 0) pool_.release(client.seq_id);
  client.seq_id = -1;
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
  client.sampler.reset();
  client.saved.clear();
}

void lh_engine::pause(int64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Client& client = find(id);
  lh::require(client.is_active(), "request " + std::to_string(id) + " is not running");
  const int32_t position = positions_.get(client.seq_id);
  // Cells that a copy between streams has yet to fill cannot be read: compute them again.
  if (position > 0 && !copies_pending_) {
    client.saved.resize(llama_state_seq_get_size(ctx_.get(), client.seq_id));
    const size_t n = llama_state_seq_get_data(ctx_.get(), client.saved.data(),
                                              client.saved.size(), client.seq_id);
    client.saved.resize(n);
  }
  client.n_saved = client.saved.empty() ? 0 : position;
  give_back(client);
  client.state = LH_STATE_PAUSED;
  ++stats_.n_pauses;
}

void lh_engine::resume(int64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Client& client = find(id);
  lh::require(client.state == LH_STATE_PAUSED,
              "request " + std::to_string(id) + " is not paused");
  client.seq_id = acquire_sequence();
  if (client.n_saved > 0) {
    const size_t n = llama_state_seq_set_data(ctx_.get(), client.saved.data(),
                                              client.saved.size(), client.seq_id);
    if (n == 0) {
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
  client.state = client.n_generated() > 0 ? LH_STATE_DECODE : LH_STATE_PREFILL;
}

void lh_engine::end(int64_t id, lh_finish reason, const char* message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Client& client = find(id);
  lh::require(reason == LH_FINISH_CANCELLED || reason == LH_FINISH_ERROR,
              "reason must be LH_FINISH_CANCELLED or LH_FINISH_ERROR");
  if (!client.has_ended()) finish(client, reason, message == nullptr ? "" : message);
}

void lh_engine::release(int64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  give_back(find(id));
  clients_.erase(id);
}

void lh_engine::reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [id, client] : clients_) give_back(client);
  clients_.clear();
  for (int32_t seq_id = 0; seq_id < n_seq_max_; ++seq_id) positions_.clear(seq_id);
}

// ---- steps --------------------------------------------------------------------------

int32_t lh_engine::n_pending(const Client& client) const {
  return static_cast<int32_t>(client.tokens.size()) - positions_.get(client.seq_id);
}

std::vector<Client*> lh_engine::select(const lh_run_params& params) {
  std::vector<Client*> chosen;
  if (params.ids == nullptr) {
    for (auto& [id, client] : clients_) {
      if (client.is_active()) chosen.push_back(&client);
    }
  } else {
    for (int32_t i = 0; i < params.n_ids; ++i) {
      Client& client = find(params.ids[i]);
      if (client.is_active()) chosen.push_back(&client);
    }
  }
  std::sort(chosen.begin(), chosen.end(),
            [](const Client* a, const Client* b) { return a->order < b->order; });
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

// Decoding clients first, one token each; prompts share what room is left, oldest first.
bool lh_engine::build_batch(const std::vector<Client*>& clients) {
  parts_.clear();
  int32_t room = batch_.capacity();
  for (const lh_state state : {LH_STATE_DECODE, LH_STATE_PREFILL}) {
    for (Client* client : clients) {
      const int32_t n = std::min(room, n_pending(*client));
      if (client->state != state || n <= 0) continue;
      parts_.push_back({client, n, -1});
      room -= n;
    }
  }
  // libllama joins streams into one computation only where their ids follow each other.
  std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) {
    return a.client->seq_id < b.client->seq_id;
  });
  batch_.clear();
  for (Part& part : parts_) {
    const Client& client = *part.client;
    const int32_t first = positions_.get(client.seq_id);
    const int32_t end = first + part.n_tokens;
    const bool last = end == static_cast<int32_t>(client.tokens.size());
    for (int32_t p = first; p < end; ++p) {
      const bool logits = last && p == end - 1 && !client.is_prefix();
      const int32_t i =
          batch_.add(client.tokens[static_cast<size_t>(p)], p, client.seq_id, logits);
      if (logits) part.i_logits = i;
    }
  }
  return !parts_.empty();
}

// A client whose record and KV cache disagree fails before it can spoil the batch.
void lh_engine::verify_positions(std::vector<int64_t>& events) {
  for (const Part& part : parts_) {
    Client& client = *part.client;
    if (client.verified) continue;
    try {
      positions_.verify(client.seq_id);
      client.verified = true;
    } catch (const Error& e) {
      finish(client, LH_FINISH_ERROR, e.what());
      events.push_back(client.id);
    }
  }
}

lh_status lh_engine::decode_batch(lh_run_result& result, std::string& message) {
  const lh::LogMark mark;
  int32_t code = kThrew;
  std::string reason;
  try {
    code = llama_decode(ctx_.get(), batch_.get());
  } catch (const std::exception& e) {
    reason = e.what();
  }
  if (code == 0) return LH_OK;
  rewind_batch();
  if (code == 2 || abort_flag_->load()) return LH_ABORTED;
  ++stats_.n_failed_decodes;
  result.decode_code = code;
  if (reason.empty()) reason = mark.first_problem();
  message = "llama_decode returned " + std::to_string(code) + " (" +
            describe_decode_code(code) + ")" + (reason.empty() ? "" : ": " + reason);
  return LH_DECODE_ERROR;
}

// Part of a failed batch may be in the cache: back to what the records say.
void lh_engine::rewind_batch() {
  for (const Part& part : parts_) {
    Client& client = *part.client;
    client.verified = false;
    if (positions_.rewind(client.seq_id)) continue;
    // A recurrent state cannot be cut: this client starts over.
    n_cells_used_ -= client.n_own_cells;
    client.n_own_cells = 0;
    client.shared_cells.reset();
    client.state = LH_STATE_PREFILL;
  }
}

lh_status lh_engine::run(const lh_run_params& params, std::vector<int64_t>& events,
                         lh_run_result& result, std::string& message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto start = std::chrono::steady_clock::now();
  const auto count_active = [&] {
    result.n_active = static_cast<int32_t>(select(params).size());
    return LH_OK;
  };
  for (;;) {
    if (abort_flag_->load()) return LH_ABORTED;
    if (!build_batch(select(params))) return count_active();
    verify_positions(events);
    if (!events.empty()) return count_active();

    const auto decode_start = std::chrono::steady_clock::now();
    const lh_status status = decode_batch(result, message);
    if (status != LH_OK) {
      count_active();
      return status;
    }
    after_decode(seconds_since(decode_start), events);
    ++result.n_steps;
    const bool enough = params.max_steps > 0 && result.n_steps >= params.max_steps;
    const bool late =
        params.max_time_ms > 0 && seconds_since(start) * 1e3 >= params.max_time_ms;
    if (!events.empty() || enough || late) return count_active();
  }
}

void lh_engine::after_decode(double seconds, std::vector<int64_t>& events) {
  copies_pending_ = false;
  int32_t n_prefill = 0;
  int32_t n_decode = 0;
  for (const Part& part : parts_) {
    Client& client = *part.client;
    positions_.advance(client.seq_id, part.n_tokens);
    client.n_own_cells += part.n_tokens;
    n_cells_used_ += part.n_tokens;
    (client.state == LH_STATE_DECODE ? n_decode : n_prefill) += part.n_tokens;
  }
  const double share = static_cast<double>(n_prefill) / batch_.size();
  stats_.n_prefill += n_prefill;
  stats_.n_decode += n_decode;
  stats_.t_prefill_s += seconds * share;
  stats_.t_decode_s += seconds * (1.0 - share);
  stats_.n_clients += static_cast<int64_t>(parts_.size());
  ++stats_.n_batches;
  stats_.n_cells_max = std::max<int64_t>(stats_.n_cells_max, n_cells_used_);
  if (debug_ >= 2) {
    std::fprintf(stderr,
                 "llamaherd: batch %" PRId64
                 ": %zu clients, %d decode + %d prefill "
                 "tokens, %.1f ms, %d cells\n",
                 stats_.n_batches, parts_.size(), n_decode, n_prefill, seconds * 1e3,
                 n_cells_used_);
  }

  const auto start = std::chrono::steady_clock::now();
  for (const Part& part : parts_) {
    Client& client = *part.client;
    if (part.i_logits >= 0) sample_client(client, part.i_logits);
    if (client.is_prefix() && n_pending(client) == 0) hold(client);
    if (!client.is_active()) events.push_back(client.id);
  }
  stats_.t_sample_s += seconds_since(start);
}

// A prefix is complete. Its cells now belong to all that will be forked from it.
void lh_engine::hold(Client& prefix) {
  prefix.state = LH_STATE_HELD;
  if (!kv_unified_) return;
  prefix.shared_cells = std::make_shared<lh::SharedCells>(
      &n_cells_used_, prefix.n_own_cells, std::move(prefix.shared_cells));
  prefix.n_own_cells = 0;
}

void lh_engine::sample_client(Client& client, int32_t i_logits) {
  try {
    float* logits = llama_get_logits_ith(ctx_.get(), i_logits);
    if (logits == nullptr) throw Error(LH_DECODE_ERROR, "libllama gave no logits");
    const int32_t token = client.sampler->sample(logits, scratch_);
    if (token == lh::Sampler::kNothingLeft) {
      finish(client, LH_FINISH_EOG, "");
    } else {
      accept(client, token);
    }
  } catch (const std::exception& e) {
    finish(client, LH_FINISH_ERROR, e.what());
  }
}

void lh_engine::accept(Client& client, int32_t token) {
  if (llama_vocab_is_eog(model_.vocab(), token)) {
    finish(client, LH_FINISH_EOG, "");
    return;
  }
  client.tokens.push_back(token);
  client.state = LH_STATE_DECODE;
  ++stats_.n_generated;
  if (client.text.append(model_.piece(token))) {
    finish(client, LH_FINISH_STOP, "");
  } else if (client.n_generated() == client.max_tokens) {
    finish(client, LH_FINISH_LENGTH, "");
  }
}
