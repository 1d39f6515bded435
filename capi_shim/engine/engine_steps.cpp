// The steps of the engine: decode a batch, sample, report what ended.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "engine.hpp"
#include "guard.hpp"
#include "log.hpp"
#include "threads.hpp"

using lh::Client;
using lh::Error;

namespace {

constexpr int32_t kNoSlot = 1;
constexpr int32_t kInvalidBatch = -1;
constexpr int32_t kThrew = -100;  // decode_code when llama_decode threw

// Fewer logits one thread has read before another one is awake.
constexpr int64_t kWorthSharing = 1'000'000;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

const char* describe_decode_code(int32_t code) {
  switch (code) {
    case kNoSlot:
      return "no free KV cells";
    case 2:
      return "aborted, though nobody asked for it";
    case kInvalidBatch:
      return "invalid batch";
    case kThrew:
      return "an exception";
    default:
      return "failure while computing";
  }
}

}  // namespace

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
  state_of_ = nullptr;
  try {
    lh::require_memory(lh::kRoom);
    code = llama_decode(ctx_.get(), batch_.get());
  } catch (const std::exception& e) {
    reason = e.what();
  } catch (...) {
    reason = "it is of an unknown type";
  }
  remove_fillers();
  if (code == 0) return LH_OK;
  const bool was_begun = code != kNoSlot && code != kInvalidBatch;
  if ((is_recurrent_ && was_begun) || !rewind_batch()) lose_states();
  if (abort_flag_->load()) return LH_ABORTED;
  ++stats_.n_failed_decodes;
  result.decode_code = code;
  if (reason.empty()) reason = mark.first_problem();
  message = "llama_decode returned " + std::to_string(code) + " (" +
            describe_decode_code(code) + ")" + (reason.empty() ? "" : ": " + reason);
  return LH_DECODE_ERROR;
}

void lh_engine::remove_fillers() {
  for (const Filler& filler : fillers_) {
    llama_memory_seq_rm(llama_get_memory(ctx_.get()), filler.seq_id, filler.position, -1);
  }
  fillers_.clear();
}

// Part of a failed batch may be in the cache: back to what the records say. False: it
// cannot be cut.
bool lh_engine::rewind_batch() {
  return std::all_of(parts_.begin(), parts_.end(), [this](const Part& part) {
    part.client->verified = false;
    return positions_.rewind(part.client->seq_id);
  });
}

// libllama writes down what becomes of recurrent states, those of other sequences
// included, before it computes it. If it failed in between, nothing of that can be
// trusted: all clients start over, and a held prefix has nothing left to be forked.
void lh_engine::lose_states() {
  llama_memory_clear(llama_get_memory(ctx_.get()), false);
  for (auto& [id, client] : clients_) {
    if (client.seq_id < 0) continue;
    client.lost_at = std::max(client.lost_at, positions_.get(client.seq_id));
    positions_.clear(client.seq_id);
    uncount_cells(client);
    client.verified = false;
    if (client.is_active()) client.state = LH_STATE_PREFILL;
  }
  ++stats_.n_lost;
}

// Whether a client has yet to get further than it was when its state was lost. What it
// makes up for is no step: whoever asks for one learns what comes next.
bool lh_engine::is_behind(const Client& client) const {
  return client.is_active() && positions_.get(client.seq_id) <= client.lost_at;
}

lh_status lh_engine::run(const lh_run_params& params, std::vector<int64_t>& events,
                         lh_run_result& result, std::string& message) {
  const std::scoped_lock lock(mutex_);
  const auto start = std::chrono::steady_clock::now();
  events.reserve(clients_.size());  // nothing may fail between a decode and its events
  int32_t n_steps_left = params.max_steps > 0 ? params.max_steps : INT32_MAX;
  const auto count_active = [&] {
    result.n_active = static_cast<int32_t>(select(params).size());
    return LH_OK;
  };
  for (;;) {
    if (abort_flag_->load()) return LH_ABORTED;
    const std::vector<Client*> clients = select(params);
    if (params.ids == nullptr) close_gaps(clients);
    if (!build_batch(clients, params.draft != 0)) return count_active();
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
    const bool caught_up =
        std::none_of(clients.begin(), clients.end(),
                     [this](const Client* client) { return is_behind(*client); });
    if (caught_up) --n_steps_left;
    const bool late =
        params.max_time_ms > 0 && seconds_since(start) * 1e3 >= params.max_time_ms;
    if (!events.empty() || n_steps_left == 0 || late) return count_active();
  }
}

void lh_engine::advance(Client& client, int32_t n_tokens) {
  positions_.advance(client.seq_id, n_tokens);
  client.n_own_cells += n_tokens;
  n_cells_used_ += n_tokens;
}

void lh_engine::after_decode(double seconds, std::vector<int64_t>& events) {
  copies_pending_ = false;
  int32_t n_prefill = 0;
  int32_t n_decode = 0;
  for (const Part& part : parts_) {
    Client& client = *part.client;
    advance(client, part.n_tokens);
    (client.state == LH_STATE_DECODE ? n_decode : n_prefill) += part.n_tokens;
  }
  const double share = static_cast<double>(n_prefill) / (n_prefill + n_decode);
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
  read_rows();
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    Client& client = *part.client;
    if (part.i_logits >= 0) sample_part(part, rows_[i]);
    if (client.is_prefix() && n_pending(client) == 0) hold(client);
    if (!client.is_active()) events.push_back(client.id);
  }
  stats_.t_sample_s += seconds_since(start);
}

// A prefix is complete. Its cells now belong to all that will be forked from it.
void lh_engine::hold(Client& prefix) {
  prefix.state = LH_STATE_HELD;
  if (!kv_unified_) return;
  try {
    prefix.shared_cells = std::make_shared<lh::SharedCells>(
        &n_cells_used_, prefix.n_own_cells, prefix.shared_cells);
    prefix.n_own_cells = 0;
  } catch (const std::exception& e) {
    finish(prefix, LH_FINISH_ERROR, e.what());
  }
}

// Null if libllama has none.
float* lh_engine::find_logits(int32_t i_logits) {
  try {
    return llama_get_logits_ith(ctx_.get(), i_logits);
  } catch (...) {
    return nullptr;
  }
}

void lh_engine::read_row(const Part& part, lh::LogitRow& row) {
  if (part.logits != nullptr) part.client->sampler->read(part.logits, row);
}

// The first row of each part. To read them is most of what sampling takes.
void lh_engine::read_rows() {
  int64_t n_logits = 0;
  // Not beside each other: libllama puts rows in order when the first is asked for.
  for (Part& part : parts_) {
    if (part.i_logits < 0) continue;
    part.logits = find_logits(part.i_logits);
    n_logits += model_.n_vocab();
  }
  lh::for_each(parts_.size(), n_logits < kWorthSharing ? 1 : n_threads_,
               [this](size_t i) { read_row(parts_[i], rows_[i]); });
}

// Drafted tokens stay as far as they are what is drawn.
void lh_engine::sample_part(Part& part, lh::LogitRow& row) {
  Client& client = *part.client;
  sample_row(part, row);
  int32_t i_logits = part.i_logits;
  for (const int32_t guess : part.draft) {
    if (!client.is_active() || client.tokens.back() != guess) break;
    advance(client, 1);
    ++stats_.n_decode;
    ++stats_.n_guessed;
    part.logits = find_logits(++i_logits);
    read_row(part, row);
    sample_row(part, row);
  }
  if (!part.draft.empty() && client.is_active()) positions_.rewind(client.seq_id);
}

void lh_engine::sample_row(const Part& part, lh::LogitRow& row) {
  Client& client = *part.client;
  try {
    if (part.logits == nullptr) throw Error(LH_DECODE_ERROR, "libllama gave no logits");
    const int32_t token = client.sampler->sample(row, candidates_);
    if (token == lh::Sampler::kNothingLeft) {
      throw Error(LH_SAMPLER_ERROR, client.sampler->why_stuck(client.text.text()));
    }
    if (token == lh::Sampler::kEnd) {
      finish(client, LH_FINISH_EOG, "");
    } else {
      accept(client, token);
    }
  } catch (const std::exception& e) {
    finish(client, LH_FINISH_ERROR, e.what());
  } catch (...) {
    finish(client, LH_FINISH_ERROR, "an exception of an unknown type while sampling");
  }
}

void lh_engine::accept(Client& client, int32_t token) {
  if (model_.is_eog(token)) {
    finish(client, LH_FINISH_EOG, "");
    return;
  }
  client.tokens.push_back(token);
  client.state = LH_STATE_DECODE;
  ++stats_.n_generated;
  if (client.text.append(model_.piece(token))) {
    finish(client, LH_FINISH_STOP, "");
  } else if (client.sampler->is_settled(client.text.text())) {
    finish(client, LH_FINISH_EOG, "");  // without steps to be told so
  } else if (client.n_generated() == client.max_tokens) {
    finish(client, LH_FINISH_LENGTH, "");
  }
}
