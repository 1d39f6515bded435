#include "client.hpp"

namespace lh {

void Client::give_back(KvCache& kv) {
  if (seq_id >= 0) kv.release(seq_id);
  seq_id = -1;
}

void Client::end(KvCache& kv, lh_finish reason, const char* why) {
  give_back(kv);
  finish_as(reason, why);
}

void Client::finish_as(lh_finish reason, const char* why) {
  state = reason == LH_FINISH_ERROR ? LH_STATE_FAILED : LH_STATE_FINISHED;
  finish = reason;
  message = why;
  text.finish();
  if (sampler) judge();
  sampler.reset();
  logits.reset();
  drop_saved();
}

bool Client::wants_row(int32_t position) const {
  if (!score) return needs_logits() && position + 1 == n_tokens();
  return position + 1 >= n_prompt && score->wants_row(position + 1 - n_prompt);
}

// Which choice it is shows at its end.
size_t Client::n_stable() const {
  return sampler && sampler->has_choices() ? 0 : text.n_stable();
}

void Client::drop_saved() {
  saved = {};
  n_saved = 0;
  if (score) score->start = {};
}

// Whether the answer came to its own end, and which choice it is.
void Client::judge() {
  const std::vector<int32_t> answer(tokens.begin() + n_prompt, tokens.end());
  const std::string& all = text.text();
  is_complete = finish == LH_FINISH_EOG ||
                (finish == LH_FINISH_STOP && sampler->is_whole(answer, all.size()));
  if (sampler->has_choices()) text.replace(sampler->choice(all, is_complete));
}

}  // namespace lh
