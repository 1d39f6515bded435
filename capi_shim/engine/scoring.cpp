#include "scoring.hpp"

#include <algorithm>

#include "client.hpp"
#include "context.hpp"
#include "guard.hpp"

namespace lh {
namespace {

// Restores the state after the prompt. If this state is lost, empties the sequence, so
// that the prompt is computed again.
void restore_start(const Score& score, Client& client, KvCache& kv) {
  kv.clear(client.seq_id);
  const std::vector<uint8_t>& start = score.start;
  if (!start.empty() && !kv.restore(start, client.n_prompt, client.seq_id)) {
    kv.clear(client.seq_id);
  }
  client.verified = false;
}

}  // namespace

// A sliding window drops the cells before the window of the first token of a computation.
// If each path is a single computation, paths that start at the same position therefore
// keep the cells that this position needs.
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

// Row 0 belongs to the prompt's last token.
int32_t Scoring::first_row(const Client& client) const {
  return client.n_prompt - 1 + score_->n_read();
}

void Scoring::read(Client& /*client*/, int32_t i, float* logits, LogitRow& row) noexcept {
  score_->read(score_->n_read() + i, logits, row);
}

void Scoring::settle(const StepServices& step, BatchPart& part, LogitRow& /*row*/) {
  if (part.n_rows == 0) return;
  Client& client = *part.client;
  client.logits.reset();
  client.n_kept_max = client.n_prompt;
  try {
    if (!score_->count_rows(part.n_rows)) {
      throw Error(LH_DECODE_ERROR, part.logits == nullptr
                                       ? "libllama gave no logits"
                                       : "the model's logits are not finite numbers");
    }
    if (go_on(client, step.kv)) return;
    if (!then_) {
      client.end(step.kv, LH_FINISH_EOG, "");
      return;
    }
    const int32_t best = score_->best();
    Answer& answer = *then_;
    client.tokens.resize(static_cast<size_t>(client.n_prompt));
    client.task = std::move(then_);  // destroys this object
    answer.write_choice(step, client, best);
  } catch (...) {
    client.fail(step.kv);
  }
}

void Scoring::finish(Client& client) {
  if (then_) then_->finish(client);
}

void Scoring::describe(lh_client_info& info) const {
  if (then_) {
    then_->describe(info);
    return;
  }
  info.n_scores = static_cast<int32_t>(score_->logprobs().size());
  info.scores = score_->logprobs().data();
  if (score_->n_top() < 0) return;
  info.n_logprobs = info.n_scores;
  info.n_top = score_->n_top();
  info.logprobs = info.scores;
  info.top_tokens = score_->top_tokens().data();
  info.top_logprobs = score_->top().data();
  info.ranks = score_->ranks().data();
}

// Continues after rows were read: with the rest of the path, or with the next path. In
// the second case, tokens in which the paths differ are removed from the cache. Returns
// false if all paths were read.
bool Scoring::go_on(Client& client, KvCache& kv) {
  Score& score = *score_;
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
  if (!is_cut) restore_start(score, client, kv);
  return true;
}

}  // namespace lh
