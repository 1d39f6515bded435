#include "batch_builder.hpp"

#include <algorithm>

namespace lh {

bool BatchBuilder::build(const std::vector<Client*>& clients, int32_t draft_rows) {
  parts_.clear();
  padding_.clear();
  batch_.clear();
  choose_parts(clients, draft_rows);
  if (parts_.empty()) return false;
  std::sort(parts_.begin(), parts_.end(), [](const BatchPart& a, const BatchPart& b) {
    return a.client->seq_id < b.client->seq_id;
  });
  add_parts();
  return true;
}

void BatchBuilder::add_part(BatchPart& part) {
  const Client& client = *part.client;
  const int32_t first = positions_.get(client.seq_id);
  const int32_t end = first + part.n_tokens;
  const bool last = end == client.n_tokens();
  for (int32_t p = first; p < end; ++p) {
    const bool logits = last && p == end - 1 && client.needs_logits();
    const int32_t i =
        batch_.add(client.tokens[static_cast<size_t>(p)], p, client.seq_id, logits);
    if (logits) part.i_logits = i;
  }
  int32_t next = end;
  for (const int32_t token : part.draft) {
    batch_.add(token, next++, client.seq_id, true);
  }
  add_padding(client.seq_id, next, part.n_padding, false);
}

void BatchBuilder::add_padding(int32_t seq_id, int32_t first, int32_t n, bool logits) {
  constexpr int32_t kAnyToken = 0;
  if (n > 0) padding_.push_back({seq_id, first});
  for (int32_t i = 0; i < n; ++i) batch_.add(kAnyToken, first + i, seq_id, logits);
}

}  // namespace lh
