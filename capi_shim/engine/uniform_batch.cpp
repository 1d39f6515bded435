#include "uniform_batch.hpp"

#include <algorithm>

#include "round_up.hpp"

namespace lh {

// Prompts before answers, never both in a batch; several tokens of an answer that had to
// come are computed as a prompt is. Drafts would change the shape.
void UniformBatch::choose_parts(const std::vector<Client*>& clients, int32_t) {
  is_prompts_ = true;
  choose(clients, limits_.capacity / kUniformRows * kUniformRows);
  if (!parts_.empty()) return;
  is_prompts_ = false;
  choose(clients, INT32_MAX);
}

// A part leaves room for its padding. What is computed again after a pause is a part of
// its own: what follows then has the shape that it would have had.
void UniformBatch::choose(const std::vector<Client*>& clients, int32_t room) {
  for (Client* client : clients) {
    const int32_t n_again = client->n_before - positions_.get(client->seq_id);
    int32_t n_all = n_pending(*client);
    if (n_again > 0) n_all = std::min(n_all, n_again);
    const int32_t n = std::min(room, n_all);
    const bool is_prompt = n_again > 0 || n_all > 1 || client->n_generated() == 0;
    if (is_prompt != is_prompts_ || n <= 0 || is_on_path(*client)) continue;
    parts_.push_back({client, n});
    room -= round_up(n, kUniformRows);
  }
}

void UniformBatch::add_parts() {
  if (is_prompts_ || parts_.front().is_path) {
    add_prompts();
  } else {
    add_answers();
  }
}

// In falling order of ids libllama computes each prompt by itself. Its one row of logits
// is then the only one, whoever else is in the batch; of a score's path all rows are
// computed, those of its padding as well.
void UniformBatch::add_prompts() {
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    part->n_padding = round_up(part->n_tokens, kUniformRows) - part->n_tokens;
    add_part(*part);
  }
}

// Groups of kUniformRows neighbouring sequences come as a whole, each sequence with a
// token and its logits.
void UniformBatch::add_answers() {
  for (auto part = parts_.begin(); part != parts_.end();) {
    const int32_t first = part->client->seq_id / kUniformRows * kUniformRows;
    for (int32_t seq_id = first; seq_id < first + kUniformRows; ++seq_id) {
      if (part != parts_.end() && part->client->seq_id == seq_id) {
        add_part(*part++);
      } else {
        add_padding(seq_id, positions_.get(seq_id), 1, true);
      }
    }
  }
}

}  // namespace lh
