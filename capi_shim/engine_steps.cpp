// The steps of the engine: build a batch, decode it, sample, report what ended.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "engine.hpp"
#include "guard.hpp"
#include "log.hpp"

using lh::Client;
using lh::Error;

namespace {

constexpr int32_t kNoSlot = 1;
constexpr int32_t kInvalidBatch = -1;
constexpr int32_t kThrew = -100;  // decode_code when llama_decode threw

// From so many tokens of a prompt on ggml computes attention another way, which rounds
// differently (docs/decisions/0012): such a part stays whole.
constexpr int32_t kTile = 64;

// Tokens left, from which on an answer is worth a copy of its stream's cells. One step
// with a gap less saves about what it costs to copy as many bytes as the model has.
constexpr int32_t kWorthMoving = 32;

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

// A gap between the ids of streams splits a batch (see SequencePool). Where a client has
// ended and none took its place, the last of those that answer does.
void lh_engine::close_gaps(const std::vector<Client*>& clients) {
  if (kv_unified_ || deterministic_ || is_recurrent_) return;
  std::vector<Client*> movable;
  for (Client* client : clients) {
    const bool goes_on = client->max_tokens - client->n_generated() >= kWorthMoving;
    if (client->state == LH_STATE_DECODE && goes_on) movable.push_back(client);
  }
  std::sort(movable.begin(), movable.end(),
            [](const Client* a, const Client* b) { return a->seq_id > b->seq_id; });
  for (Client* client : movable) {
    const int32_t gap = pool_.first_free();
    if (gap < 0 || gap > client->seq_id || !move_to_gap(*client)) return;
  }
}

// False: it stays where it is, for want of memory.
bool lh_engine::move_to_gap(Client& client) {
  const int32_t seq_id = pool_.acquire();
  try {
    llama_memory_seq_cp(llama_get_memory(ctx_.get()), client.seq_id, seq_id, -1, -1);
  } catch (...) {
    pool_.release(seq_id);
    return false;
  }
  positions_.set(seq_id, positions_.get(client.seq_id));
  pool_.release(client.seq_id);
  client.seq_id = seq_id;
  copies_pending_ = true;
  return true;
}

// Decoding clients first, one token each; prompts share what room is left, oldest first.
// libllama computes streams together only as far as the shortest part goes. So prompts of
// different lengths would get their logits in many small computations: their last tokens
// wait for the next batch, which computes them in one with those of the answers. And only
// the first prompt of a batch is cut, so that most are computed as they are alone.
void lh_engine::choose_parts(const std::vector<Client*>& clients) {
  int32_t room = batch_.capacity();
  const bool has_streams = !kv_unified_ && clients.size() > 1;
  bool has_prompt = false;
  for (const lh_state state : {LH_STATE_DECODE, LH_STATE_PREFILL}) {
    if (state == LH_STATE_PREFILL) room = std::min(room, n_batch_);
    for (Client* client : clients) {
      const int32_t n_all = n_pending(*client);
      int32_t n = std::min(room, n_all);
      if (client->state != state || n <= 0) continue;
      const bool completes = n == n_all && !client->is_prefix();
      if (has_streams && n < n_all && has_prompt) continue;
      if (has_streams && completes && n > 1 && n < kTile) --n;
      has_prompt = state == LH_STATE_PREFILL;
      parts_.push_back({client, n, -1});
      room -= n;
    }
  }
}

// Prompts before answers, never both in a batch; a prompt's part leaves room for fillers.
void lh_engine::choose_uniform_parts(const std::vector<Client*>& clients) {
  const auto choose = [&](lh_state state, int32_t room) {
    for (Client* client : clients) {
      const int32_t n = std::min(room, n_pending(*client));
      if (client->state != state || n <= 0) continue;
      parts_.push_back({client, n, -1});
      room -= lh::round_up(n, lh::kUniformRows);
    }
  };
  choose(LH_STATE_PREFILL, batch_.capacity() / lh::kUniformRows * lh::kUniformRows);
  if (parts_.empty()) choose(LH_STATE_DECODE, INT32_MAX);
}

void lh_engine::add_part(Part& part) {
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

// libllama joins streams into one computation where their ids rise one by one, as far as
// the shortest part goes. Long parts are computed whole, and so as they are alone, if
// nothing that comes later can join: they come in falling order, and so do groups of
// short ones, within which it is rising.
void lh_engine::add_parts() {
  const auto is_long = [this](const Part& part) {
    return !kv_unified_ && part.n_tokens >= kTile;
  };
  for (auto end = parts_.end(); end != parts_.begin();) {
    auto first = end - 1;
    if (!is_long(*first)) {
      while (first != parts_.begin() && !is_long(*(first - 1))) --first;
    }
    std::for_each(first, end, [this](Part& part) { add_part(part); });
    end = first;
  }
}

// A token that stands for nothing, to be removed when the batch is decoded.
void lh_engine::add_filler(int32_t seq_id, int32_t position, bool logits) {
  constexpr int32_t kAnyToken = 0;
  batch_.add(kAnyToken, position, seq_id, logits);
  fillers_.push_back({seq_id, position});
}

// In falling order of ids libllama computes each prompt by itself. Its one row of logits
// is then the only one, whoever else is in the batch.
void lh_engine::add_uniform_prompts() {
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    add_part(*part);
    const int32_t seq_id = part->client->seq_id;
    const int32_t first = positions_.get(seq_id);
    const int32_t n_rows = lh::round_up(part->n_tokens, lh::kUniformRows);
    for (int32_t n = part->n_tokens; n < n_rows; ++n) {
      add_filler(seq_id, first + n, false);
    }
  }
}

// A group of neighbouring sequences comes as a whole, each with a token and its logits.
void lh_engine::add_uniform_answers() {
  auto part = parts_.begin();
  for (int32_t seq_id = 0; part != parts_.end(); ++seq_id) {
    if (part->client->seq_id == seq_id) {
      add_part(*part++);
    } else if (part->client->seq_id / lh::kUniformRows == seq_id / lh::kUniformRows) {
      add_filler(seq_id, positions_.get(seq_id), true);
    }
  }
  for (int32_t seq_id = parts_.back().client->seq_id + 1; seq_id % lh::kUniformRows != 0;
       ++seq_id) {
    add_filler(seq_id, positions_.get(seq_id), true);
  }
}

bool lh_engine::build_batch(const std::vector<Client*>& clients) {
  parts_.clear();
  fillers_.clear();
  batch_.clear();
  deterministic_ ? choose_uniform_parts(clients) : choose_parts(clients);
  if (parts_.empty()) return false;
  std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) {
    return a.client->seq_id < b.client->seq_id;
  });
  if (!deterministic_) {
    add_parts();
  } else if (parts_.front().client->state == LH_STATE_PREFILL) {
    add_uniform_prompts();
  } else {
    add_uniform_answers();
  }
  return true;
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
  copies_pending_ = false;
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
    if (!build_batch(clients)) return count_active();
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
  try {
    prefix.shared_cells = std::make_shared<lh::SharedCells>(
        &n_cells_used_, prefix.n_own_cells, prefix.shared_cells);
    prefix.n_own_cells = 0;
  } catch (const std::exception& e) {
    finish(prefix, LH_FINISH_ERROR, e.what());
  }
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
  } else if (client.n_generated() == client.max_tokens) {
    finish(client, LH_FINISH_LENGTH, "");
  }
}
