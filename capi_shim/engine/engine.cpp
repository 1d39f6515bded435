#include "engine.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "guard.hpp"
#include "log.hpp"
#include "prefix.hpp"
#include "scoring.hpp"
#include "thought.hpp"
#include "threads.hpp"

using lh::Client;
using lh::Error;

// ---- creation and resizing -------------------------------------------------------

lh_engine::lh_engine(const lh_model& model, const lh_engine_params& params,
                     std::atomic<bool>* abort_flag)
    : held_model_(model.held()),
      model_(model),
      abort_flag_(abort_flag == nullptr ? &own_abort_flag_ : abort_flag),
      is_recurrent_(lh::has_recurrent_states(model)),
      debug_(lh::debug_level()),
      stage_(std::make_unique<lh::Stage>(model, params, abort_flag_, statistics_)) {}

lh_engine::~lh_engine() { lh::end_idle_threads(); }

lh::Stage& lh_engine::stage() {
  if (!stage_) throw Error(LH_CONTEXT_ERROR, why_no_stage_);
  return *stage_;
}

// Tries to create the stage. Returns an error message, or "" on success.
std::string lh_engine::make_stage(const lh_engine_params& params) {
  try {
    stage_ = std::make_unique<lh::Stage>(model_, params, abort_flag_, statistics_);
    return "";
  } catch (...) {
    lh_error error;
    lh::translate_exception(&error);
    std::string message;
    lh::copy_message(error.message, message);
    return message;
  }
}

void lh_engine::resize(const lh_engine_params& params) {
  const std::scoped_lock lock(mutex_);
  lh::check_params(model_, params);
  const auto n_running =
      std::count_if(clients_.begin(), clients_.end(),
                    [](const auto& item) { return item.second.is_active(); });
  lh::require(n_running == 0,
              "a resize needs all requests to be paused or to have ended; " +
                  std::to_string(n_running) + " are running");
  const lh_engine_params old_params = stage_ ? stage_->params : params;
  const std::vector<double> old_key = stage_ ? stage_->state_key : std::vector<double>{};
  const bool had_stage = stage_ != nullptr;
  const std::vector<Client*> taken = take_out_cells();
  stage_.reset();
  lh::return_free_memory();
  const std::string problem = make_stage(params);
  if (!stage_) {
    const std::string worse = had_stage ? make_stage(old_params) : problem;
    if (stage_) {
      put_back_cells(taken);
    } else {
      lose_stage(worse);
    }
    throw Error(LH_CONTEXT_ERROR, problem);
  }
  if (stage_->state_key != old_key) {
    for (auto& [id, client] : clients_) client.drop_saved();
  }
  put_back_cells(taken);
}

// Saves the cells of held prefixes and of ended requests that keep theirs. Returns these
// clients.
std::vector<Client*> lh_engine::take_out_cells() {
  std::vector<Client*> taken;
  taken.reserve(clients_.size());  // no exception once cells are freed
  for (auto& [id, client] : clients_) {
    if (client.seq_id < 0) continue;
    save_cells(client);
    client.give_back(stage_->kv);
    taken.push_back(&client);
  }
  return taken;
}

// Restores the cells of `take_out_cells` in the stage. A prefix that lost them fails.
void lh_engine::put_back_cells(const std::vector<Client*>& taken) {
  lh::KvCache& kv = stage_->kv;
  for (Client* pointer : taken) {
    Client& client = *pointer;
    const bool is_prefix = client.state == LH_STATE_HELD;
    if (client.n_saved > 0 && kv.n_seq_used() < kv.n_seq_max()) {
      client.seq_id = kv.acquire(is_prefix);
      bool is_back = kv.restore(client.saved, client.n_saved, client.seq_id);
      try {
        if (is_back && is_prefix) kv.share(client.seq_id);
      } catch (const std::bad_alloc&) {
        is_back = false;
      }
      if (!is_back) client.give_back(kv);
    }
    client.saved = {};
    client.n_saved = 0;
    client.verified = false;
    if (is_prefix && client.seq_id < 0) {
      client.finish_as(LH_FINISH_ERROR, "the KV cells of the prefix were lost");
    }
  }
}

// Handles a resize after which neither the new nor the old context could be created.
void lh_engine::lose_stage(const std::string& why) {
  try {
    why_no_stage_ =
        "the engine has no llama_context since it could not be resized: " + why;
  } catch (const std::bad_alloc&) {
    lh::copy_message(why.c_str(), why_no_stage_);
  }
  for (auto& [id, client] : clients_) {
    client.drop_saved();
    if (!client.has_ended()) client.finish_as(LH_FINISH_ERROR, why_no_stage_.c_str());
  }
}

// ---- state -----------------------------------------------------------------------

lh_engine_info lh_engine::info() {
  const std::scoped_lock lock(mutex_);
  const lh::Stage& now = stage();
  lh_engine_info out{};
  out.n_ctx = static_cast<int32_t>(llama_n_ctx(now.ctx.get()));
  out.n_ctx_seq = now.limits.n_ctx_seq;
  out.n_seq_max = now.kv.n_seq_max();
  out.n_batch = now.limits.n_prompt;
  out.n_ubatch = now.limits.n_ubatch;
  out.kv_unified = now.limits.has_streams ? 0 : 1;
  out.n_cells_used = now.kv.n_cells_used();
  for (auto& [id, client] : clients_) {
    if (client.state != LH_STATE_PREFILL) continue;
    out.n_cells_pending += client.n_pending(now.kv.positions());
  }
  out.n_seq_used = now.kv.n_seq_used();
  return out;
}

lh_stats lh_engine::stats(int64_t call) {
  const std::scoped_lock lock(mutex_);
  return statistics_.get(call);
}

void lh_engine::forget_call(int64_t call) {
  const std::scoped_lock lock(mutex_);
  statistics_.forget(call);
}

int32_t lh_engine::seq_pos_max(int32_t seq_id) {
  const std::scoped_lock lock(mutex_);
  lh::require_range("seq_id", seq_id, 0, stage().kv.n_seq_max() - 1);
  return llama_memory_seq_pos_max(llama_get_memory(stage_->ctx.get()), seq_id);
}

lh_client_info lh_engine::get(int64_t id) {
  const std::scoped_lock lock(mutex_);
  const Client& client = find(id);
  lh_client_info out{};
  out.state = client.state;
  out.finish = client.finish;
  out.n_prompt = client.n_prompt - client.n_thought;
  out.n_reused = client.n_reused;
  if (client.state == LH_STATE_PAUSED) {
    out.n_cells = client.n_saved;
    out.n_pending = client.n_tokens() - client.n_saved;
  } else if (client.seq_id >= 0) {
    out.n_cells = stage_->kv.n_own_cells(client.seq_id);
  }
  if (client.is_active()) out.n_pending = client.n_pending(stage_->kv.positions());
  out.n_generated = client.n_generated();
  out.seed = client.seed;
  out.tokens = client.tokens.data() + client.n_prompt;
  out.text = client.text.text().c_str();
  out.n_text = static_cast<int32_t>(client.n_stable());
  out.code = client.code;
  out.message = client.message.c_str();
  out.complete = client.is_complete ? 1 : 0;
  out.n_logprobs = -1;
  client.task->describe(out);
  out.n_prefill = static_cast<int32_t>(client.taken.n_prefill);
  out.n_decode = static_cast<int32_t>(client.taken.n_decode);
  out.n_draft = static_cast<int32_t>(client.taken.n_draft);
  out.n_pauses = static_cast<int32_t>(client.taken.n_pauses);
  out.t_prefill_s = client.taken.t_prefill_s;
  out.t_decode_s = client.taken.t_decode_s;
  out.t_first_s = client.t_first_s;
  if (client.thought && client.thought->is_there) {
    const lh::WrittenThought& thought = *client.thought;
    out.thinking = thought.text.text().c_str();
    out.n_thinking = static_cast<int32_t>(thought.text.n_stable());
    out.n_thinking_tokens = thought.n_tokens;
    out.thinking_closed = thought.closed;
  }
  if (client.is_kept()) describe_kept(client, out);
  return out;
}

// In a pool, cells that belong to a prefix cannot be removed. Recurrent states and full
// attention windows cannot be truncated at all.
void lh_engine::describe_kept(const Client& client, lh_client_info& out) {
  const int32_t n_cells = stage_->kv.positions().get(client.seq_id);
  const int32_t n_swa = llama_model_n_swa(model_.get());
  const bool has_all = n_swa == 0 || stage_->params.swa_full != 0 || n_cells <= n_swa;
  const bool can_cut = has_all && !is_recurrent_;
  const int32_t n_shared = n_cells - stage_->kv.n_own_cells(client.seq_id);
  const int32_t n_kept = std::min(n_cells, client.n_kept_max);
  const int32_t least = can_cut ? std::max(1, n_shared) : n_cells;
  if (least < 1 || least > n_kept) return;
  out.kept = client.tokens.data();
  out.n_kept = n_kept;
  out.least_kept = least;
}

lh_piece lh_engine::read(int64_t id, int32_t n_bytes, int32_t n_tokens) {
  const std::scoped_lock lock(mutex_);
  const Client& client = find(id);
  lh_piece out{};
  out.n_bytes_now = static_cast<int32_t>(client.n_stable());
  out.n_tokens_now = client.n_generated();
  lh::require_range("n_bytes", n_bytes, 0, out.n_bytes_now);
  lh::require_range("n_tokens", n_tokens, 0, out.n_tokens_now);
  out.text = client.text.text().data() + n_bytes;
  out.n_text = out.n_bytes_now - n_bytes;
  out.tokens = client.tokens.data() + client.n_prompt + n_tokens;
  out.n_tokens = out.n_tokens_now - n_tokens;
  return out;
}

Client& lh_engine::find(int64_t id) {
  const auto entry = clients_.find(id);
  if (entry == clients_.end()) {
    throw Error(LH_NOT_FOUND, "there is no request with id " + std::to_string(id));
  }
  return entry->second;
}

// ---- requests --------------------------------------------------------------------

void lh_engine::submit(const lh_request& request) {
  const std::scoped_lock lock(mutex_);
  const lh::Clock::time_point now = lh::Clock::now();
  stage();
  lh::require(clients_.count(request.id) == 0,
              "a request with id " + std::to_string(request.id) + " exists already");
  Client client = make_client(request);
  client.submitted = now;
  Client* prefix = find_prefix(request);
  client.task = make_task(request, client);
  Client& slot = clients_.emplace(request.id, std::move(client)).first->second;
  lh::KvCache& kv = stage_->kv;
  try {
    slot.of_call = statistics_.of_call(request.call);
    if (prefix != nullptr && prefix->is_kept()) {
      take_over(*prefix, slot, request.n_fork);
    } else {
      slot.seq_id = kv.acquire(slot.task->is_prefix());
      if (prefix != nullptr) slot.n_reused = kv.fork(prefix->seq_id, slot.seq_id);
      if (slot.n_reused == slot.n_prompt) slot.logits = prefix->logits;
    }
    statistics_.add(slot, &lh_stats::n_reused, int64_t{slot.n_reused});
    slot.order = n_submitted_++;
    slot.task->start(stage_->sampler.services(), slot);
    if (!slot.is_active()) events_.push_back(slot.id);
  } catch (...) {
    slot.give_back(kv);
    clients_.erase(request.id);
    throw;
  }
}

Client lh_engine::make_client(const lh_request& request) {
  lh::require_range("n_tokens", request.n_tokens, 1, stage().n_prompt_max);
  lh::require_range("max_tokens", request.max_tokens, 0, INT32_MAX);
  lh::require_range("n_stop", request.n_stop, 0, 1024);
  lh::require_range("call", request.call, 0, INT64_MAX);
  lh::deref(request.tokens, "tokens");
  lh::require_range("logprobs", request.logprobs, 0, 1 + LH_MAX_LOGPROBS);
  Client client;
  client.id = request.id;
  client.tokens.assign(request.tokens, request.tokens + request.n_tokens);
  client.n_prompt = request.n_tokens;
  client.max_tokens = request.max_tokens;
  client.priority = request.priority;
  if (request.sampling != nullptr) client.seed = request.sampling->seed;
  client.is_watched = request.watch != 0;
  client.keeps = request.keep != 0;
  // A choice ends by itself; a stop text could only truncate it.
  const bool has_choices = request.sampling != nullptr && request.sampling->n_choices > 0;
  if (!has_choices) client.text = lh::TextBuffer(stops_of(request));
  return client;
}

// Only this function and make_task_behind treat kinds of requests differently.
std::unique_ptr<lh::Task> lh_engine::make_task(const lh_request& request,
                                               Client& client) {
  if (request.thinking == nullptr) return make_task_behind(request, client, 0);
  const lh_thinking& thinking = *request.thinking;
  lh::check_thinking(thinking, model_);
  lh::require(request.max_tokens > 0, "a prefix has no thought: thinking must be NULL");
  const int64_t n_room = lh::room_of(thinking);
  lh::require_range("tokens of a prompt and its thought", request.n_tokens + n_room, 1,
                    stage_->n_prompt_max);
  client.thought = std::make_unique<lh::WrittenThought>();
  std::unique_ptr<lh::Task> then =
      make_task_behind(request, client, static_cast<int32_t>(n_room));
  return std::make_unique<lh::Thought>(model_, thinking, client.tokens, sampler_cache_,
                                       std::move(then), request.logprobs > 0);
}

// Returns the task that a request runs after a thought of at most n_thought tokens.
std::unique_ptr<lh::Task> lh_engine::make_task_behind(const lh_request& request,
                                                      const Client& client,
                                                      int32_t n_thought) {
  const int32_t n_prompt = client.n_prompt + n_thought;
  const auto find_way = [&](lh::Score& score) {
    score.set_way(
        lh::way_of_score(score, n_prompt, model_, stage_->params, stage_->limits));
  };
  if (request.score != nullptr) {
    lh::require(request.max_tokens > 0, "max_tokens of a score must be at least 1");
    const int32_t n_vocab = model_.n_vocab();
    const lh_score& s = *request.score;
    auto score =
        std::make_unique<lh::Score>(std::make_shared<const lh::TokenTree>(
                                        "score", s.n_nodes, s.token, s.parent, n_vocab),
                                    n_vocab);
    lh::require_range("tokens of a prompt and its longest continuation but for the last",
                      int64_t{n_prompt} + score->depth(), 1, stage_->n_prompt_max);
    find_way(*score);
    if (request.logprobs > 0) score->keep_top(request.logprobs - 1);
    return std::make_unique<lh::Scoring>(std::move(score));
  }
  if (request.max_tokens == 0) return std::make_unique<lh::Prefix>(request.whole != 0);
  lh::deref(request.sampling, "sampling");
  auto answer =
      std::make_unique<lh::Answer>(model_, request, client.tokens, sampler_cache_);
  // If max_tokens suffices for every choice, scoring finds the most probable choice.
  const lh::Choices* choices = answer->sought();
  if (choices == nullptr) return answer;
  auto score =
      std::make_unique<lh::Score>(choices->tree(), model_.n_vocab(), choices->ends());
  if (score->depth() > client.max_tokens) return answer;
  find_way(*score);
  return std::make_unique<lh::Scoring>(std::move(score), std::move(answer));
}

// Returns null if the request has no prefix.
Client* lh_engine::find_prefix(const lh_request& request) {
  if (request.fork_from < 0) return nullptr;
  Client& prefix = find(request.fork_from);
  if (prefix.has_ended()) {
    check_kept(request, prefix);
    return &prefix;
  }
  lh::require(prefix.state == LH_STATE_HELD,
              "fork_from " + std::to_string(request.fork_from) + " is not held");
  // The last token of a prompt is decoded to obtain its logits, unless the prefix kept
  // them.
  const bool may_be_equal = prefix.logits && request.max_tokens > 0;
  lh::require(prefix.n_tokens() < request.n_tokens + (may_be_equal ? 1 : 0) &&
                  std::equal(prefix.tokens.begin(), prefix.tokens.end(), request.tokens),
              "request " + std::to_string(request.id) +
                  " does not start with the tokens of its fork_from");
  return &prefix;
}

void lh_engine::check_kept(const lh_request& request, const Client& ended) {
  const std::string name = "fork_from " + std::to_string(request.fork_from);
  lh_client_info info{};
  if (ended.is_kept()) describe_kept(ended, info);
  lh::require(info.n_kept > 0, name + " has ended and keeps no cells");
  lh::require_range("n_fork", request.n_fork, info.least_kept,
                    std::min(info.n_kept, request.n_tokens - 1));
  lh::require(std::equal(info.kept, info.kept + request.n_fork, request.tokens),
              "request " + std::to_string(request.id) + " does not start with " +
                  std::to_string(request.n_fork) + " tokens of its " + name);
}

// Lets a client continue the first tokens of a request that has ended. A prefix copies
// them, because with streams it needs one of the highest sequence ids.
void lh_engine::take_over(Client& ended, Client& client, int32_t n_tokens) {
  lh::KvCache& kv = stage_->kv;
  if (client.task->is_prefix() && stage_->limits.has_streams) {
    client.seq_id = kv.acquire(true);
    kv.fork(ended.seq_id, client.seq_id);
  } else {
    std::swap(client.seq_id, ended.seq_id);
  }
  if (!kv.roll_back(client.seq_id, n_tokens)) kv.clear(client.seq_id);
  client.n_reused = kv.positions().get(client.seq_id);
}

// Reuses the stop texts of the last request if the texts are equal, because stop texts
// may need much memory.
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
  lh::KvCache& kv = stage().kv;
  Client& client = find(id);
  lh::require(client.is_active(), "request " + std::to_string(id) + " is not running");
  const int32_t position = kv.positions().get(client.seq_id);
  save_cells(client);
  // the client may be paused again
  client.n_before = std::max(client.n_before, position);
  client.give_back(kv);
  client.state = LH_STATE_PAUSED;
  statistics_.add(client, &lh_stats::n_pauses, int64_t{1});
}

void lh_engine::save_cells(Client& client) {
  lh::KvCache& kv = stage_->kv;
  const int32_t position = kv.positions().get(client.seq_id);
  const bool is_saved = position > 0 && kv.save(client.seq_id, client.saved);
  client.n_saved = is_saved ? position : 0;  // 0: the whole sequence is computed again
}

void lh_engine::resume(int64_t id) {
  const std::scoped_lock lock(mutex_);
  lh::KvCache& kv = stage().kv;
  Client& client = find(id);
  lh::require(client.state == LH_STATE_PAUSED,
              "request " + std::to_string(id) + " is not paused");
  client.seq_id = kv.acquire(client.task->is_prefix());
  // A pending copy between streams may still read the sequence: compute the whole
  // sequence again.
  if (kv.has_pending_copies()) client.n_saved = 0;
  if (client.n_saved > 0 && !kv.restore(client.saved, client.n_saved, client.seq_id)) {
    client.give_back(kv);
    throw Error(LH_NO_SPACE, "no room for the " + std::to_string(client.n_saved) +
                                 " KV cells of request " + std::to_string(id));
  }
  client.saved = {};
  client.verified = false;
  const bool is_prompt = client.n_written() == 0 && client.n_thought == 0;
  const bool is_whole = !is_prompt && client.n_pending(kv.positions()) == 1;
  client.state = is_whole ? LH_STATE_DECODE : LH_STATE_PREFILL;
}

void lh_engine::set_priority(int64_t id, int32_t priority) {
  const std::scoped_lock lock(mutex_);
  find(id).priority = priority;
}

void lh_engine::end(int64_t id, lh_finish reason, const char* message) {
  const std::scoped_lock lock(mutex_);
  Client& client = find(id);
  lh::require(reason == LH_FINISH_CANCELLED || reason == LH_FINISH_ERROR,
              "reason must be LH_FINISH_CANCELLED or LH_FINISH_ERROR");
  if (client.has_ended()) return;
  client.end(stage().kv, reason, message == nullptr ? "" : message);
}

void lh_engine::release(int64_t id) {
  const std::scoped_lock lock(mutex_);
  Client& client = find(id);
  if (client.seq_id >= 0) client.give_back(stage().kv);
  clients_.erase(id);
  events_.erase(std::remove(events_.begin(), events_.end(), id), events_.end());
}

void lh_engine::reset() {
  const std::scoped_lock lock(mutex_);
  lh::KvCache& kv = stage().kv;
  for (auto& [id, client] : clients_) client.give_back(kv);
  clients_.clear();
  events_.clear();
  for (int32_t seq_id = 0; seq_id < kv.n_seq_max(); ++seq_id) kv.clear(seq_id);
}
