// What goes into a batch, and in which order.
#include <algorithm>
#include <utility>

#include "engine.hpp"
#include "padding.hpp"
#include "prompt_lookup.hpp"
#include "round_up.hpp"

using lh::Client;

namespace {

// From so many tokens of a prompt on ggml computes attention another way, which rounds
// differently (docs/decisions/0012): such a part stays whole.
constexpr int32_t kTile = 64;

// Tokens left, from which on an answer is worth a copy of its stream's cells. One step
// with a gap less saves about what it costs to copy as many bytes as the model has.
constexpr int32_t kWorthMoving = 32;

// Tokens that are guessed at most for an answer: with its last one as many rows as ggml
// takes at a time. Where no more rows than a few are computed together, one more costs
// little.
constexpr int32_t kDraft = 3;
constexpr int32_t kFewRows = 16;

}  // namespace

// A gap between the ids of streams splits a batch (see SequencePool). Where a client has
// ended and none took its place, the last of those that answer does.
void lh_engine::close_gaps(const std::vector<Client*>& clients) {
  if (!loose_streams_) return;
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
    copy_cells(client, seq_id);
  } catch (...) {
    pool_.release(seq_id);
    return false;
  }
  positions_.set(seq_id, positions_.get(client.seq_id));
  pool_.release(client.seq_id);
  client.seq_id = seq_id;
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
      parts_.push_back({client, n});
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
      parts_.push_back({client, n});
      room -= lh::round_up(n, lh::kUniformRows);
    }
  };
  choose(LH_STATE_PREFILL, batch_.capacity() / lh::kUniformRows * lh::kUniformRows);
  if (parts_.empty()) choose(LH_STATE_DECODE, INT32_MAX);
}

// Prompts without a cell may be anywhere, prefixes among themselves. Those whose answers
// may last longest come first, and then the longest: so that few gaps arise where others
// end.
void lh_engine::sort_new(bool prefixes) {
  std::vector<Client*> clients;
  std::vector<int32_t> ids;
  for (const Part& part : parts_) {
    Client* client = part.client;
    if (positions_.has(client->seq_id) || client->is_prefix() != prefixes) continue;
    clients.push_back(client);
    ids.push_back(client->seq_id);
  }
  const auto key = [](const Client* client) {
    return std::make_pair(client->max_tokens, client->tokens.size());
  };
  std::stable_sort(clients.begin(), clients.end(),
                   [&](const Client* a, const Client* b) { return key(a) > key(b); });
  std::sort(ids.begin(), ids.end());
  for (size_t i = 0; i < ids.size(); ++i) clients[i]->seq_id = ids[i];
}

// Where few answer and no prompt is there, what texts that repeat themselves may go on
// with is computed with their last tokens. All parts are then equally long, so that this
// is one computation, and no window of attention moves on for what is removed again.
void lh_engine::choose_drafts() {
  const auto n_parts = static_cast<int32_t>(parts_.size());
  const auto n_ubatch = static_cast<int32_t>(llama_n_ubatch(ctx_.get()));
  int32_t n_rows = std::min({kFewRows, n_ubatch, batch_.capacity()});
  if (kv_unified_) {
    const auto n_cells = static_cast<int32_t>(llama_n_ctx(ctx_.get()));
    n_rows = std::min(n_rows, n_cells - n_cells_used_);
  }
  int32_t n_more = std::min(kDraft, n_rows / n_parts - 1);
  const auto n_ctx_seq = static_cast<int32_t>(llama_n_ctx_seq(ctx_.get()));
  for (const Part& part : parts_) {
    if (part.client->state != LH_STATE_DECODE) return;
    n_more = std::min(n_more, n_ctx_seq - positions_.get(part.client->seq_id) - 1);
  }
  if (n_more <= 0) return;
  std::vector<std::vector<int32_t>> drafts;
  int32_t n_drafts = 0;
  for (const Part& part : parts_) {
    const Client& client = *part.client;
    drafts.emplace_back();
    if (client.sampler->is_greedy())
      drafts.back() = lh::prompt_lookup(client.tokens, n_more);
    if (!drafts.back().empty()) ++n_drafts;
  }
  if (4 * n_drafts < 3 * n_parts) return;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (drafts[i].empty() && !kv_unified_) parts_[i].n_fillers = n_more;
    parts_[i].draft = std::move(drafts[i]);
  }
}

// Short parts are filled up to about the same length.
void lh_engine::level_parts() {
  std::vector<Part*> parts;
  int32_t room = batch_.capacity();
  for (Part& part : parts_) {
    room -= part.n_tokens;
    if (part.n_tokens < kTile) parts.push_back(&part);
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part* a, const Part* b) { return a->n_tokens < b->n_tokens; });
  std::vector<lh::PartLength> lengths;
  for (const Part* part : parts) {
    const int32_t position = positions_.get(part->client->seq_id);
    lengths.push_back({part->n_tokens, position, n_fillable_ - position});
  }
  const std::vector<int32_t> levels = lh::padded_lengths(lengths, room, has_amx_);
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i]->n_fillers = levels[i] - parts[i]->n_tokens;
  }
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
  int32_t next = end;
  for (const int32_t token : part.draft) {
    batch_.add(token, next++, client.seq_id, true);
  }
  add_fillers(client.seq_id, next, part.n_fillers, false);
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

// Tokens that stand for nothing, to be removed when the batch is decoded.
void lh_engine::add_fillers(int32_t seq_id, int32_t first, int32_t n, bool logits) {
  constexpr int32_t kAnyToken = 0;
  if (n > 0) fillers_.push_back({seq_id, first});
  for (int32_t i = 0; i < n; ++i) batch_.add(kAnyToken, first + i, seq_id, logits);
}

// In falling order of ids libllama computes each prompt by itself. Its one row of logits
// is then the only one, whoever else is in the batch.
void lh_engine::add_uniform_prompts() {
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    const int32_t n_rows = lh::round_up(part->n_tokens, lh::kUniformRows);
    part->n_fillers = n_rows - part->n_tokens;
    add_part(*part);
  }
}

// A group of neighbouring sequences comes as a whole, each with a token and its logits.
void lh_engine::add_uniform_answers() {
  auto part = parts_.begin();
  for (int32_t seq_id = 0; part != parts_.end(); ++seq_id) {
    if (part->client->seq_id == seq_id) {
      add_part(*part++);
    } else if (part->client->seq_id / lh::kUniformRows == seq_id / lh::kUniformRows) {
      add_fillers(seq_id, positions_.get(seq_id), 1, true);
    }
  }
  for (int32_t seq_id = parts_.back().client->seq_id + 1; seq_id % lh::kUniformRows != 0;
       ++seq_id) {
    add_fillers(seq_id, positions_.get(seq_id), 1, true);
  }
}

bool lh_engine::build_batch(const std::vector<Client*>& clients, bool draft) {
  parts_.clear();
  fillers_.clear();
  batch_.clear();
  deterministic_ ? choose_uniform_parts(clients) : choose_parts(clients);
  if (parts_.empty()) return false;
  if (loose_streams_) {
    for (const bool prefixes : {false, true}) sort_new(prefixes);
    level_parts();
  }
  if (draft && !is_recurrent_ && !deterministic_) choose_drafts();
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
