#include <algorithm>
#include <utility>

#include "batch_builder.hpp"
#include "padding.hpp"

namespace lh {
namespace {

// For prompt parts of at least this length, ggml uses another attention kernel with
// different rounding (docs/decisions/0012). Such parts are therefore not split.
constexpr int32_t kTile = 64;

// Maximum number of draft tokens per answer. Together with the last token, this is the
// number of rows that ggml's kernels process at a time.
constexpr int32_t kDraft = 3;

// Maximum number of rows of a batch with drafts. Up to this size, one more row costs
// little.
constexpr int32_t kFewRows = 16;

}  // namespace

void MixedBatch::choose_parts(const std::vector<Client*>& running, int32_t draft_rows) {
  // Answers come first, each with one token or several forced tokens. Prompts share the
  // rest of the batch, oldest first. With streams, prompts of different lengths would
  // obtain their logits in many small computations. The last token of each prompt
  // therefore waits for the next batch, which computes it together with the tokens of the
  // answers. Exception: the last token of a watched prompt does not wait if the prompt is
  // the only one or has priority. Only the first prompt of a batch is split, so most
  // prompts are computed in the same parts as when they run alone. If a prompt needs
  // several batches, shorter prompts pass it in every second batch, and their last tokens
  // are computed together with tokens of answers.
  std::vector<Client*> clients = running;
  const bool is_passed = was_cut_ && let_short_prompts_pass(clients);
  was_cut_ = false;
  const bool has_long =
      std::any_of(clients.begin(), clients.end(), [this](const Client* c) {
        return is_prompt(*c) && n_pending(*c) > limits_.n_prompt;
      });
  int32_t room = limits_.capacity;
  const bool has_streams = limits_.has_streams && clients.size() > 1;
  const auto n_prompts =
      std::count_if(clients.begin(), clients.end(),
                    [](const Client* c) { return c->state == LH_STATE_PREFILL; });
  bool has_prompt = false;
  const int32_t limit = answer_limit_of(clients);
  if (limits_.mixes_paths) room -= add_paths(clients);
  for (const lh_state state : {LH_STATE_DECODE, LH_STATE_PREFILL}) {
    if (state == LH_STATE_PREFILL) room = std::min(room, limits_.n_prompt);
    for (Client* client : clients) {
      const int32_t n_all = n_pending(*client);
      int32_t n = std::min(room, n_all);
      if (state == LH_STATE_DECODE) n = std::min(n, limit);
      const bool is_last = has_streams && has_long && n_all == 1;
      const lh_state client_state = is_last ? LH_STATE_DECODE : client->state;
      if (client_state != state || n <= 0 || is_on_path(*client)) continue;
      const bool completes =
          n == n_all && client->task->first_row(*client) != Task::kNoRow;
      if (has_streams && n < n_all && has_prompt) continue;
      was_cut_ = was_cut_ || (state == LH_STATE_PREFILL && n < n_all && !is_passed);
      const bool is_awaited =
          client->is_watched && (n_prompts == 1 || client->priority > 0);
      if (has_streams && completes && !is_awaited && n > 1 && n < kTile) --n;
      has_prompt = state == LH_STATE_PREFILL;
      parts_.push_back({client, n});
      room -= n;
    }
  }
  if (parts_.empty()) return;
  if (limits_.n_paddable > 0) {
    for (const bool prefixes : {false, true}) sort_new(prefixes);
    pad_parts();
  }
  choose_drafts(draft_rows);
}

// Returns the maximum number of tokens per answer. In a pool there is no limit.
int32_t MixedBatch::answer_limit_of(const std::vector<Client*>& clients) const {
  std::vector<AnswerLength> answers;
  bool is_forced = false;
  for (const Client* client : clients) {
    if (client->state != LH_STATE_DECODE) continue;
    answers.push_back({client->seq_id, n_pending(*client)});
    is_forced = is_forced || answers.back().n_tokens > 1;
  }
  if (!is_forced || !limits_.has_streams) return INT32_MAX;
  std::sort(
      answers.begin(), answers.end(),
      [](const AnswerLength& a, const AnswerLength& b) { return a.seq_id < b.seq_id; });
  return answer_limit(answers, limits_.has_amx);
}

// Adds paths of scores, treated as answers of more than one token. Returns the number of
// their tokens.
int32_t MixedBatch::add_paths(const std::vector<Client*>& clients) {
  const auto n_paths = static_cast<int32_t>(
      std::count_if(clients.begin(), clients.end(),
                    [this](const Client* c) { return is_on_path(*c); }));
  if (n_paths == 0) return 0;
  // Leaves a row of logits for each of the other clients.
  const auto n_others = static_cast<int32_t>(clients.size()) - n_paths;
  const int32_t n_each =
      std::max(1, std::min(limits_.n_outputs, limits_.capacity) / n_paths -
                      n_others / n_paths - 1);
  int32_t n_tokens = 0;
  for (Client* client : clients) {
    const int32_t n = std::min(n_each, n_pending(*client));
    if (!is_on_path(*client) || n <= 0) continue;
    BatchPart part{client, n};
    part.is_path = true;
    n_tokens += part.n_tokens;
    parts_.push_back(std::move(part));
  }
  return n_tokens;
}

// Assigns new sequence ids to prompts without cells, and to prefixes without cells.
// Clients with longer expected answers get the first ids, then clients with longer
// prompts, so that few gaps appear when other clients end.
void MixedBatch::sort_new(bool prefixes) {
  std::vector<Client*> clients;
  std::vector<int32_t> ids;
  for (const BatchPart& part : parts_) {
    Client* client = part.client;
    if (positions_.has(client->seq_id) || client->task->is_prefix() != prefixes) continue;
    clients.push_back(client);
    ids.push_back(client->seq_id);
  }
  const auto key = [](const Client* client) {
    return std::make_pair(client->n_remaining(), client->tokens.size());
  };
  std::stable_sort(clients.begin(), clients.end(),
                   [&](const Client* a, const Client* b) { return key(a) > key(b); });
  std::sort(ids.begin(), ids.end());
  for (size_t i = 0; i < ids.size(); ++i) clients[i]->seq_id = ids[i];
}

void MixedBatch::pad_parts() {
  std::vector<BatchPart*> parts;
  int32_t room = limits_.capacity;
  for (BatchPart& part : parts_) {
    room -= part.n_tokens;
    if (part.n_tokens < kTile) parts.push_back(&part);
  }
  std::sort(parts.begin(), parts.end(), [](const BatchPart* a, const BatchPart* b) {
    return a->n_tokens < b->n_tokens;
  });
  std::vector<PartLength> lengths;
  for (const BatchPart* part : parts) {
    const int32_t position = positions_.get(part->client->seq_id);
    lengths.push_back({part->n_tokens, position, limits_.n_paddable - position});
  }
  const std::vector<int32_t> padded = padded_lengths(lengths, room, limits_.has_amx);
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i]->n_padding = padded[i] - parts[i]->n_tokens;
  }
}

// Returns the number of draft tokens per part; 0 or less means no draft tokens.
int32_t MixedBatch::n_draft(int32_t draft_rows) const {
  const int32_t n_rows =
      std::min({kFewRows, limits_.n_ubatch, limits_.capacity, draft_rows});
  int32_t n = std::min(kDraft, n_rows / static_cast<int32_t>(parts_.size()) - 1);
  for (const BatchPart& part : parts_) {
    if (part.client->state != LH_STATE_DECODE || n_pending(*part.client) > 1) return 0;
    n = std::min(n, limits_.n_ctx_seq - positions_.get(part.client->seq_id) - 1);
  }
  return n;
}

// Adds draft tokens after the last tokens if few clients answer and no prompt is in the
// batch. All parts have the same length, so that the batch is one computation and no
// sliding window advances for tokens that are removed again.
void MixedBatch::choose_drafts(int32_t draft_rows) {
  const int32_t n = n_draft(draft_rows);
  if (n <= 0) return;
  std::vector<std::vector<int32_t>> drafts;
  size_t n_drafts = 0;
  for (const BatchPart& part : parts_) {
    const Client& client = *part.client;
    drafts.push_back(client.task->draft(client, n));
    if (!drafts.back().empty()) ++n_drafts;
  }
  if (4 * n_drafts < 3 * parts_.size()) return;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (drafts[i].empty() && limits_.has_streams) parts_[i].n_padding = n;
    parts_[i].draft = std::move(drafts[i]);
  }
}

// libllama joins streams with consecutive increasing ids into one computation, up to the
// length of the shortest part. A long part is computed separately, exactly as without
// other clients, if no stream after it can join. Long parts are therefore added in
// decreasing order of ids, each before the group of short parts with the next higher ids.
// Within a group, ids increase.
void MixedBatch::add_parts() {
  const auto is_long = [this](const BatchPart& part) {
    return limits_.has_streams && part.n_tokens >= kTile;
  };
  for (auto end = parts_.end(); end != parts_.begin();) {
    auto first = end - 1;
    if (!is_long(*first)) {
      while (first != parts_.begin() && !is_long(*(first - 1))) --first;
    }
    std::for_each(first, end, [this](BatchPart& part) { add_part(part); });
    end = first;
  }
}

}  // namespace lh
