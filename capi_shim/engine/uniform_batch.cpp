#include <algorithm>

#include "batch_builder.hpp"
#include "round_up.hpp"

namespace lh {
namespace {

constexpr int32_t kMostPrompts = 4;

}  // namespace

// Prompts come before answers, and a batch never contains both. Several forced tokens of
// an answer are computed like a prompt. Drafts are not used, because they would change
// the shape of the batch. If a prompt needs several batches, batches of answers alternate
// with its batches, and shorter prompts pass it. Answers wait for at most kMostPrompts
// batches: otherwise short prompts that arrive again and again would delay them forever.
void UniformBatch::choose_parts(const std::vector<Client*>& clients, int32_t) {
  const auto choose_answers = [&] {
    is_prompts_ = false;
    n_prompts_ = 0;
    choose(clients, INT32_MAX);
  };
  if (is_prompts_ && (was_cut_ || n_prompts_ >= kMostPrompts)) choose_answers();
  if (!parts_.empty()) return;
  is_prompts_ = true;
  ++n_prompts_;
  std::vector<Client*> ordered = clients;
  const bool is_passed = was_cut_ && let_short_prompts_pass(ordered);
  choose(ordered, limits_.capacity / kUniformRows * kUniformRows);
  was_cut_ =
      !is_passed && std::any_of(parts_.begin(), parts_.end(), [this](const auto& part) {
        return is_prompt(*part.client) && part.n_tokens < n_pending(*part.client);
      });
  if (parts_.empty()) choose_answers();
}

// Each part leaves enough cells for its padding. Tokens that are computed again after a
// pause are a separate part, so that later parts have the same shape as without the
// pause.
void UniformBatch::choose(const std::vector<Client*>& clients, int32_t room) {
  for (Client* client : clients) {
    const int32_t n_again = client->n_before - positions_.get(client->seq_id);
    int32_t n_all = n_pending(*client);
    if (n_again > 0) n_all = std::min(n_all, n_again);
    const int32_t n = std::min(room, n_all);
    const bool is_prompt = n_again > 0 || n_all > 1 || client->n_written() == 0;
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

// Ids decrease, so that libllama computes each prompt separately. The computation then
// has a single row of logits, independent of other clients. For a score's path all rows
// are computed, including the rows of padding.
void UniformBatch::add_prompts() {
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    part->n_padding = round_up(part->n_tokens, kUniformRows) - part->n_tokens;
    add_part(*part);
  }
}

// Adds whole groups of kUniformRows adjacent sequences, each sequence with one token and
// its logits.
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
