#include "score_steps.hpp"

#include <algorithm>

#include "context.hpp"

namespace lh {
namespace {

// Back to what the prompt left, or, if that is lost, to an empty sequence: the prompt is
// then computed again.
void restore_start(Client& client, KvCache& kv) {
  kv.clear(client.seq_id);
  const std::vector<uint8_t>& start = client.score->start;
  if (!start.empty() && !kv.restore(start, client.n_prompt, client.seq_id)) {
    kv.clear(client.seq_id);
  }
  client.verified = false;
}

}  // namespace

// A window of attention gives up what lies before the window of the first token of a
// computation. So paths that start at one place lose nothing which that place needs, if
// they are one computation each.
Score::Way way_of_score(const Score& score, int32_t n_prompt, const lh_model& model,
                        const lh_engine_params& params, const BatchLimits& limits) {
  if (!score.has_branches()) return {};
  if (has_recurrent_states(model)) return {true, true};
  const int32_t n_swa = llama_model_n_swa(model.get());
  const bool is_window_full = n_prompt + score.depth() > n_swa;
  if (n_swa == 0 || params.swa_full != 0 || !is_window_full) return {};
  const int32_t most = std::min({limits.n_outputs, limits.n_ubatch, limits.capacity});
  return {true, score.depth() > most};
}

bool go_on_with_score(Client& client, KvCache& kv) {
  Score& score = *client.score;
  if (!score.is_path_read()) return true;
  if (score.is_by_state() && score.n_path() == 0) kv.save(client.seq_id, score.start);
  const bool is_first = score.n_path() == 0;
  const int32_t n_kept = score.next_path();
  if (n_kept < 0) return false;
  client.tokens.resize(static_cast<size_t>(client.n_prompt));
  for (int32_t i = 0; i < score.n_path(); ++i) {
    client.tokens.push_back(score.path_token(i));
  }
  if (is_first) return true;
  client.lost_at = -1;
  const bool is_cut =
      !score.is_by_state() && kv.roll_back(client.seq_id, client.n_prompt + n_kept);
  if (!is_cut) restore_start(client, kv);
  return true;
}

}  // namespace lh
