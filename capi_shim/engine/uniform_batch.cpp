#include "uniform_batch.hpp"

#include <algorithm>

#include "round_up.hpp"

namespace lh {

// Prompts before answers, never both in a batch. Drafts would change the shape.
void UniformBatch::choose_parts(const std::vector<Client*>& clients, int32_t) {
  choose(clients, LH_STATE_PREFILL, limits_.capacity / kUniformRows * kUniformRows);
  if (parts_.empty()) choose(clients, LH_STATE_DECODE, INT32_MAX);
}

// A part leaves room for its padding.
void UniformBatch::choose(const std::vector<Client*>& clients, lh_state state,
                          int32_t room) {
  for (Client* client : clients) {
    const int32_t n = std::min(room, n_pending(*client));
    if (client->state != state || n <= 0) continue;
    parts_.push_back({client, n});
    room -= round_up(n, kUniformRows);
  }
}

void UniformBatch::add_parts() {
  if (parts_.front().client->state == LH_STATE_PREFILL) {
    add_prompts();
  } else {
    add_answers();
  }
}

// In falling order of ids libllama computes each prompt by itself. Its one row of logits
// is then the only one, whoever else is in the batch.
void UniformBatch::add_prompts() {
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    part->n_padding = round_up(part->n_tokens, kUniformRows) - part->n_tokens;
    add_part(*part);
  }
}

// A group of neighbouring sequences comes as a whole, each with a token and its logits.
void UniformBatch::add_answers() {
  auto part = parts_.begin();
  for (int32_t seq_id = 0; part != parts_.end(); ++seq_id) {
    if (part->client->seq_id == seq_id) {
      add_part(*part++);
    } else if (part->client->seq_id / kUniformRows == seq_id / kUniformRows) {
      add_padding(seq_id, positions_.get(seq_id), 1, true);
    }
  }
  for (int32_t seq_id = parts_.back().client->seq_id + 1; seq_id % kUniformRows != 0;
       ++seq_id) {
    add_padding(seq_id, positions_.get(seq_id), 1, true);
  }
}

}  // namespace lh
