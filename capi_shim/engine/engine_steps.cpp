// Steps of the engine: decode a batch, sample, report events.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <tuple>

#include "engine.hpp"
#include "guard.hpp"
#include "log.hpp"

using lh::Client;
using lh::seconds_since;

namespace {

constexpr int32_t kNoSlot = 1;
constexpr int32_t kInvalidBatch = -1;
constexpr int32_t kThrew = -100;  // decode_code after an exception in llama_decode

// An answer is moved to another stream only if it may still write this number of tokens,
// and one more token for each kCellsPerToken of its cells, which must be copied. The move
// closes a gap and thus saves one computation per step. Copying kCellsPerToken cells
// costs less than one computation.
constexpr int32_t kLeastTokens = 4;
constexpr int32_t kCellsPerToken = 128;

const char* describe_decode_code(int32_t code) {
  switch (code) {
    case kNoSlot:
      return "no free KV cells";
    case 2:
      return "aborted without a request";
    case kInvalidBatch:
      return "invalid batch";
    case kThrew:
      return "an exception";
    default:
      return "failure while computing";
  }
}

// Moves the last answering client into a free sequence id below it. A gap between stream
// ids splits a batch (see KvCache::acquire).
void close_gaps(lh::KvCache& kv, const std::vector<Client*>& clients) {
  if (!kv.can_move()) return;
  std::vector<Client*> movable;
  for (Client* client : clients) {
    const int32_t n_cells = kv.positions().get(client->seq_id);
    const bool pays = client->n_remaining() >= kLeastTokens + n_cells / kCellsPerToken;
    if (client->state == LH_STATE_DECODE && pays) movable.push_back(client);
  }
  std::sort(movable.begin(), movable.end(),
            [](const Client* a, const Client* b) { return a->seq_id > b->seq_id; });
  for (Client* client : movable) {
    const int32_t seq_id = kv.move_down(client->seq_id);
    if (seq_id < 0) return;
    client->seq_id = seq_id;
  }
}

}  // namespace

std::vector<Client*> lh_engine::select(const lh_run_params& params) {
  std::vector<Client*> chosen;
  const auto choose = [&chosen](Client& client) {
    if (client.is_active()) chosen.push_back(&client);
  };
  if (params.ids == nullptr) {
    for (auto& [id, client] : clients_) choose(client);
  } else {
    for (int32_t i = 0; i < params.n_ids; ++i) choose(find(params.ids[i]));
  }
  std::sort(chosen.begin(), chosen.end(), [](const Client* a, const Client* b) {
    return std::tie(b->priority, a->order) < std::tie(a->priority, b->order);
  });
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

bool lh_engine::build_batch(const std::vector<Client*>& clients, bool may_draft) {
  int32_t draft_rows = 0;
  if (may_draft && !is_recurrent_) {
    const auto n_ctx = static_cast<int32_t>(llama_n_ctx(stage_->ctx.get()));
    const bool has_streams = stage_->limits.has_streams;
    draft_rows = has_streams ? INT32_MAX : n_ctx - stage_->kv.n_cells_used();
  }
  if (!stage_->builder->build(clients, draft_rows)) return false;
  statistics_.begin_batch(stage_->builder->parts());
  return true;
}

// Draws the first tokens of clients whose whole prompt a prefix has computed. These
// tokens need no batch.
void lh_engine::sample_first(const std::vector<Client*>& clients) {
  for (Client* client : clients) {
    if (!client->has_prompt_logits(stage_->kv.positions())) continue;
    stage_->sampler.sample_first(*client);
    report(*client);
  }
}

// Compares the recorded position of each client with the KV cache before the client joins
// a batch, and fails the client if the positions differ.
void lh_engine::verify_positions() {
  for (const lh::BatchPart& part : stage_->builder->parts()) {
    Client& client = *part.client;
    if (client.verified) continue;
    try {
      stage_->kv.verify(client.seq_id);
      client.verified = true;
    } catch (...) {
      client.fail(stage_->kv);
      report(client);
    }
  }
}

lh_status lh_engine::decode_batch(lh_run_result& result, std::string& message) {
  const lh::LogMark mark;
  int32_t code = kThrew;
  bool was_begun = false;
  std::string reason;
  stage_->kv.before_decode();
  try {
    lh::require_memory(lh::kRoom);
    was_begun = true;
    code = llama_decode(stage_->ctx.get(), stage_->builder->batch());
  } catch (const std::exception& e) {
    lh::copy_message(e.what(), reason);
  } catch (...) {
    lh::copy_message("it is of an unknown type", reason);
  }
  for (const lh::Padding& padding : stage_->builder->padding()) {
    stage_->kv.cut(padding.seq_id, padding.position);
  }
  if (code == 0) return LH_OK;
  was_begun = was_begun && code != kNoSlot && code != kInvalidBatch;
  if ((is_recurrent_ && was_begun) || !rewind_batch()) lose_states();
  if (abort_flag_->load()) return LH_ABORTED;
  statistics_.count(&lh_stats::n_failed_decodes);
  result.decode_code = code;
  if (reason.empty()) reason = mark.first_problem();
  message = "llama_decode returned " + std::to_string(code) + " (" +
            describe_decode_code(code) + ")" + (reason.empty() ? "" : ": " + reason);
  return LH_DECODE_ERROR;
}

// Removes cells after the recorded positions, which a failed batch may have left. Returns
// false if the memory cannot be truncated.
bool lh_engine::rewind_batch() {
  const auto& parts = stage_->builder->parts();
  return std::all_of(parts.begin(), parts.end(), [this](const lh::BatchPart& part) {
    part.client->verified = false;
    return stage_->kv.rewind(part.client->seq_id);
  });
}

// libllama updates the records of recurrent states, including those of other sequences,
// before it computes the states. If a decode fails in between, no state is reliable: all
// clients start again, and held prefixes can no longer be forked.
void lh_engine::lose_states() {
  for (auto& [id, client] : clients_) {
    if (client.seq_id < 0) continue;
    client.lost_at = std::max(client.lost_at, stage_->kv.positions().get(client.seq_id));
    client.verified = false;
    if (client.is_active()) client.state = LH_STATE_PREFILL;
  }
  stage_->kv.lose_all();
  statistics_.count(&lh_stats::n_lost);
}

// Tests whether a client is still computing tokens again that it had computed before its
// state was lost. The run does not count such steps.
bool lh_engine::is_behind(const Client& client) const {
  return client.is_active() &&
         stage_->kv.positions().get(client.seq_id) <= client.lost_at;
}

// No client becomes active in a run, and none ends without an event.
lh_status lh_engine::run(const lh_run_params& params, int64_t* events, int32_t capacity,
                         lh_run_result& result, std::string& message) {
  const std::scoped_lock lock(mutex_);
  stage();
  if (!clients_.empty()) {
    lh::deref(events, "events");
    lh::require_range("capacity", capacity, 1, INT32_MAX);
  }
  const auto start = lh::Clock::now();
  // reserve memory now: no allocation may fail between a decode and its events
  events_.reserve(clients_.size());
  int32_t n_steps_left = params.max_steps > 0 ? params.max_steps : INT32_MAX;
  const std::vector<Client*> clients = select(params);
  lh_status status = LH_OK;
  while (events_.empty()) {
    if (abort_flag_->load()) return LH_ABORTED;
    sample_first(clients);
    if (!events_.empty()) break;
    if (params.ids == nullptr) close_gaps(stage_->kv, clients);
    if (!build_batch(clients, params.ids == nullptr)) break;
    verify_positions();
    if (!events_.empty()) break;

    const auto decode_start = lh::Clock::now();
    status = decode_batch(result, message);
    if (status != LH_OK) break;
    after_decode(seconds_since(decode_start));
    ++result.n_steps;
    const bool caught_up =
        std::none_of(clients.begin(), clients.end(),
                     [this](const Client* client) { return is_behind(*client); });
    if (caught_up) --n_steps_left;
    const bool late =
        params.max_time_ms > 0 && seconds_since(start) * 1e3 >= params.max_time_ms;
    if (!events_.empty() || n_steps_left == 0 || late) break;
    if (is_woken_.exchange(false)) break;
  }
  result.n_active = static_cast<int32_t>(
      std::count_if(clients.begin(), clients.end(),
                    [](const Client* client) { return client->is_active(); }));
  result.n_events = take_events(events, capacity);
  return status;
}

// Moves as many events as there is room for, oldest first.
int32_t lh_engine::take_events(int64_t* events, int32_t capacity) {
  const auto n = std::min(static_cast<int32_t>(events_.size()), std::max(capacity, 0));
  std::copy_n(events_.begin(), n, events);
  events_.erase(events_.begin(), events_.begin() + n);
  return n;
}

void lh_engine::after_decode(double seconds) {
  stage_->kv.after_decode();
  count_batch(seconds);
  const auto start = lh::Clock::now();
  std::vector<lh::BatchPart>& parts = stage_->builder->parts();
  stage_->sampler.sample(parts);
  for (const lh::BatchPart& part : parts) report(*part.client);
  const double share = seconds_since(start) / static_cast<double>(parts.size());
  for (const lh::BatchPart& part : parts) {
    statistics_.add(*part.client, &lh_stats::t_sample_s, share);
  }
}

// Reports the events for Python: a watched first token, or the end of a client.
void lh_engine::report(Client& client) {
  const bool is_first = client.is_watched && client.has_begun();
  if (is_first) client.is_watched = false;
  if (is_first || !client.is_active()) events_.push_back(client.id);
}

void lh_engine::count_batch(double seconds) {
  const std::vector<lh::BatchPart>& parts = stage_->builder->parts();
  int32_t n_all = 0;
  int32_t n_prefill = 0;
  for (const lh::BatchPart& part : parts) {
    stage_->kv.advance(part.client->seq_id, part.n_tokens);
    n_all += part.n_tokens;
  }
  for (const lh::BatchPart& part : parts) {
    Client& client = *part.client;
    const bool decodes = client.state == LH_STATE_DECODE || part.is_path;
    if (!decodes) n_prefill += part.n_tokens;
    statistics_.add(client, decodes ? &lh_stats::n_decode : &lh_stats::n_prefill,
                    int64_t{part.n_tokens});
    statistics_.add(client, decodes ? &lh_stats::t_decode_s : &lh_stats::t_prefill_s,
                    seconds * part.n_tokens / n_all);
    statistics_.add(client, &lh_stats::n_clients, int64_t{1});
  }
  statistics_.count_batch(stage_->kv.n_cells_used());
  if (debug_ >= 2) {
    std::fprintf(stderr,
                 "llamaherd: batch %" PRId64
                 ": %zu clients, %d decode + %d prefill "
                 "tokens, %.1f ms, %d cells\n",
                 statistics_.get(-1).n_batches, parts.size(), n_all - n_prefill,
                 n_prefill, seconds * 1e3, stage_->kv.n_cells_used());
  }
}
