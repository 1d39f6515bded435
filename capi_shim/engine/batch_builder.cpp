#include "batch_builder.hpp"

#include <algorithm>
#include <utility>

#include "guard.hpp"
#include "round_up.hpp"

namespace lh {
namespace {

constexpr int32_t kMostBatches = 32;

}  // namespace

bool BatchBuilder::build(const std::vector<Client*>& clients, int32_t draft_rows) {
  parts_.clear();
  padding_.clear();
  batch_.clear();
  was_path_ = is_time_for_paths(clients);
  if (was_path_) {
    choose_paths(clients);
  } else {
    choose_parts(clients, draft_rows);
  }
  if (parts_.empty()) return false;
  std::sort(parts_.begin(), parts_.end(), [](const BatchPart& a, const BatchPart& b) {
    return a.client->seq_id < b.client->seq_id;
  });
  add_parts();
  return true;
}

// Paths wait until the prompts of other scores are computed, so that many paths share a
// batch, but for at most kMostBatches batches: otherwise scores that arrive again and
// again could delay them forever. Batches of paths alternate with batches of all other
// work.
bool BatchBuilder::is_time_for_paths(const std::vector<Client*>& clients) {
  if (limits_.mixes_paths) return false;
  bool any_path = false;
  bool any_prompt = false;  // of a score
  bool any_other = false;
  for (const Client* client : clients) {
    const bool has_paths = client->task->has_paths();
    const bool is_path = has_paths && is_on_path(*client);
    any_path = any_path || is_path;
    any_prompt = any_prompt || (has_paths && !is_path);
    any_other = any_other || !is_path;
  }
  const bool waits = any_prompt && n_waited_ < kMostBatches;
  const bool is_time = any_path && !waits && !(any_other && was_path_);
  n_waited_ = any_path && !is_time ? n_waited_ + 1 : 0;
  return is_time;
}

// Paths are in a separate batch. If the sequences are adjacent, the batch is one
// computation: all paths have the length of the first path or are padded to this length.
// A sliding window therefore does not advance for tokens that are removed again.
void BatchBuilder::choose_paths(const std::vector<Client*>& clients) {
  int32_t room = std::min({limits_.n_outputs, limits_.n_ubatch, limits_.capacity});
  int32_t length = 0;
  for (Client* client : clients) {
    if (!client->task->has_paths()) continue;
    const int32_t n = std::min(n_pending(*client), room);
    if (length == 0 || !limits_.has_streams) length = n;
    const int32_t n_padded = limits_.is_uniform ? round_up(n, kUniformRows) : length;
    if (n_padded > room || n <= 0) continue;
    BatchPart part{client, n};
    part.is_path = true;
    if (limits_.has_streams && !limits_.is_uniform && n != length) {
      const bool is_paddable =
          n < length && 2 * n >= length &&
          positions_.get(client->seq_id) + length <= limits_.n_paddable;
      if (!is_paddable) continue;
      part.n_padding = length - n;
    }
    parts_.push_back(std::move(part));
    room -= n_padded;
  }
}

// Moves prompts that fit into one batch before the longer prompts of the same priority,
// which otherwise would delay them for several batches. A builder calls this function at
// most for every second batch, so that the oldest prompt always makes progress. Returns
// whether a prompt passed another one.
bool BatchBuilder::let_short_prompts_pass(std::vector<Client*>& clients) const {
  const auto is_long = [this](const Client* client) {
    return is_prompt(*client) && n_pending(*client) > limits_.n_prompt;
  };
  const auto first = std::find_if(clients.begin(), clients.end(), is_long);
  if (first == clients.end()) return false;
  const int32_t priority = (*first)->priority;
  const auto end = std::find_if(first, clients.end(), [&](const Client* client) {
    return client->priority != priority;
  });
  const bool passes = std::any_of(
      first, end, [&](const Client* c) { return is_prompt(*c) && !is_long(c); });
  std::stable_partition(first, end, [&](const Client* c) { return !is_long(c); });
  return passes;
}

void BatchBuilder::add_part(BatchPart& part) {
  const Client& client = *part.client;
  const int32_t first = positions_.get(client.seq_id);
  const int32_t end = first + part.n_tokens;
  const int32_t first_row = client.task->first_row(client);
  for (int32_t p = first; p < end; ++p) {
    const bool is_wanted = p >= first_row;
    const bool logits = is_wanted || (part.is_path && limits_.is_uniform);
    const int32_t i =
        batch_.add(client.tokens[static_cast<size_t>(p)], p, client.seq_id, logits);
    if (is_wanted && part.n_rows++ == 0) part.i_logits = i;
  }
  int32_t next = end;
  for (const int32_t token : part.draft) {
    batch_.add(token, next++, client.seq_id, true);
  }
  add_padding(client.seq_id, next, part.n_padding, part.is_path && limits_.is_uniform);
}

void BatchBuilder::add_padding(int32_t seq_id, int32_t first, int32_t n, bool logits) {
  constexpr int32_t kAnyToken = 0;
  if (n > 0) padding_.push_back({seq_id, first});
  for (int32_t i = 0; i < n; ++i) batch_.add(kAnyToken, first + i, seq_id, logits);
}

Batch::Batch(int32_t capacity)
    : batch_(llama_batch_init(capacity, 0, 1)), capacity_(capacity) {}

Batch::~Batch() { llama_batch_free(batch_); }

int32_t Batch::add(int32_t token, int32_t position, int32_t seq_id, bool logits) {
  const int32_t i = batch_.n_tokens;
  if (i >= capacity_) throw Error(LH_INTERNAL, "the batch is full");
  batch_.token[i] = token;
  batch_.pos[i] = position;
  batch_.n_seq_id[i] = 1;
  batch_.seq_id[i][0] = seq_id;
  batch_.logits[i] = static_cast<int8_t>(logits);
  ++batch_.n_tokens;
  return i;
}

}  // namespace lh
