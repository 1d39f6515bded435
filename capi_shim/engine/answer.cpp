#include "answer.hpp"

#include <algorithm>
#include <string>

#include "batch_builder.hpp"
#include "client.hpp"
#include "guard.hpp"
#include "logit_row.hpp"
#include "statistics.hpp"

namespace lh {

Answer::Answer(const lh_model& model, const lh_request& request,
               const std::vector<int32_t>& prompt, SamplerCache& cache)
    : Task(Kind::kAnswer),
      sampler_(std::make_unique<Sampler>(model, *request.sampling, cache, request.paths)),
      may_draft_(request.draft != 0),
      // Each token with a requested log-probability needs its own logits row.
      steps_forced_(request.step_forced != 0 || request.logprobs > 0) {
  if (request.logprobs > 0) {
    logprobs_ = std::make_unique<Logprobs>(request.logprobs - 1, model.n_vocab());
  }
  for (const int32_t token : prompt) sampler_->see(token);
}

std::vector<int32_t> Answer::draft(const Client& client, int32_t n) const {
  if (!may_draft_ || !sampler_->is_greedy()) return {};
  return prompt_lookup(client.tokens, n);
}

// Forced tokens at the start of an answer are decoded together with the prompt.
void Answer::start(const StepServices& step, Client& client) { add_forced(step, client); }

void Answer::read(Client& /*client*/, int32_t /*i*/, float* logits,
                  LogitRow& row) noexcept {
  if (logits == nullptr) return;
  if (logprobs_) logprobs_->read(logits, row);
  sampler_->read(logits, row);
}

// Keeps the draft tokens that equal the drawn or forced tokens.
void Answer::settle(const StepServices& step, BatchPart& part, LogitRow& row) {
  if (part.n_rows == 0) return;
  Client& client = *part.client;
  size_t n_known = client.tokens.size();  // number of tokens whose rows were sampled
  sample_row(step, part, row);
  int32_t i_logits = part.i_logits;
  for (const int32_t token : part.draft) {
    if (!client.is_active() || client.tokens[n_known] != token) break;
    step.kv.advance(client.seq_id, 1);
    step.statistics.add(client, &lh_stats::n_decode, int64_t{1});
    step.statistics.add(client, &lh_stats::n_draft, int64_t{1});
    ++i_logits;
    if (++n_known < client.tokens.size()) continue;
    part.logits = step.find_logits(i_logits);
    read(client, 0, part.logits, row);
    sample_row(step, part, row);
  }
  if (!part.draft.empty() && client.seq_id >= 0) step.kv.rewind(client.seq_id);
}

void Answer::sample_row(const StepServices& step, const BatchPart& part, LogitRow& row) {
  Client& client = *part.client;
  try {
    if (part.logits == nullptr) throw Error(LH_DECODE_ERROR, "libllama gave no logits");
    const int32_t token = next_token(step, row);
    if (token == Sampler::kNothingLeft) {
      throw Error(LH_SAMPLER_ERROR, sampler_->why_stuck(client.text.text()));
    }
    if (token == Sampler::kEnd) {
      client.end(step.kv, LH_FINISH_EOG, "");
    } else {
      client.state = LH_STATE_DECODE;
      if (logprobs_ && !sampler_->ends_answer(token)) {
        logprobs_->accept(token, static_cast<size_t>(client.n_generated()));
      }
      accept(step, client, token);
      add_forced(step, client);
    }
  } catch (...) {
    client.fail(step.kv);
  }
}

int32_t Answer::next_token(const StepServices& step, LogitRow& row) {
  if (forced_.empty()) return sampler_->sample(row, step.candidates);
  const int32_t token = forced_.front();
  forced_.pop_front();
  sampler_->take(token);
  return token;
}

void Answer::add_forced(const StepServices& step, Client& client) {
  while (client.is_active() && forced_.empty()) {
    const std::vector<int32_t> tokens = sampler_->forced_tokens();
    if (tokens.empty()) return;
    if (steps_forced_) {
      forced_.assign(tokens.begin(), tokens.end());
      return;
    }
    for (const int32_t token : tokens) {
      if (!client.is_active()) return;
      sampler_->take(token);
      accept(step, client, token);
    }
  }
}

void Answer::accept(const StepServices& step, Client& client, int32_t token) {
  if (step.model.is_eog(token)) {
    client.end(step.kv, LH_FINISH_EOG, "");
    return;
  }
  if (sampler_->ends_answer(token)) {
    client.end(step.kv, LH_FINISH_STOP, "");
    return;
  }
  client.tokens.push_back(token);
  client.logits.reset();
  if (logprobs_) logprobs_->fill(static_cast<size_t>(client.n_generated()));
  step.statistics.add(client, &lh_stats::n_generated, int64_t{1});
  client.note_first();
  const bool may_stop = client.n_generated() > sampler_->min_tokens();
  if (client.text.append(step.model.piece(token), may_stop)) {
    client.end(step.kv, LH_FINISH_STOP, "");
  } else if (sampler_->is_settled()) {
    client.end(step.kv, LH_FINISH_EOG, "");  // end now, because no further step would
                                             // detect the end
  } else if (client.n_generated() == client.max_tokens) {
    client.end(step.kv, LH_FINISH_LENGTH, "");
  }
}

void Answer::take(const StepServices& step, Client& client, int32_t token,
                  const float* logits, LogitRow& row) {
  if (logprobs_ && logits != nullptr && !sampler_->ends_answer(token)) {
    logprobs_->read(logits, row);
    logprobs_->accept(token, static_cast<size_t>(client.n_generated()));
  }
  sampler_->take(token);
  accept(step, client, token);
}

void Answer::write_choice(const StepServices& step, Client& client, int32_t node) {
  sampler_->aim_at(node);
  if (!logprobs_) {
    while (client.is_active()) {
      const int32_t token = sampler_->aimed_token();
      sampler_->take(token);
      accept(step, client, token);
    }
    return;
  }
  client.state = LH_STATE_PREFILL;
  client.lost_at = -1;
  client.verified = false;
  client.n_kept_max = INT32_MAX;
  if (client.n_prompt == 1 || !step.kv.roll_back(client.seq_id, client.n_prompt - 1)) {
    step.kv.clear(client.seq_id);
  }
}

// Determines whether the answer is complete, and which choice it is.
void Answer::finish(Client& client) {
  const std::vector<int32_t> answer(client.tokens.begin() + client.n_prompt,
                                    client.tokens.end());
  const std::string& all = client.text.text();
  client.is_complete =
      client.finish == LH_FINISH_EOG ||
      (client.finish == LH_FINISH_STOP && sampler_->is_whole(answer, all.size()));
  if (sampler_->has_choices()) {
    client.text.replace(sampler_->choice(all, client.is_complete));
  }
  sampler_.reset();
}

void Answer::describe(lh_client_info& info) const {
  if (!logprobs_) return;
  info.n_logprobs = static_cast<int32_t>(logprobs_->chosen().size());
  info.n_top = logprobs_->n_top();
  info.logprobs = logprobs_->chosen().data();
  info.top_tokens = logprobs_->top_tokens().data();
  info.top_logprobs = logprobs_->top().data();
}

std::vector<int32_t> prompt_lookup(const std::vector<int32_t>& tokens, int32_t n) {
  constexpr size_t kMatch = 6;
  if (tokens.size() <= kMatch) return {};
  const auto earlier = std::search(tokens.rbegin() + 1, tokens.rend(), tokens.rbegin(),
                                   tokens.rbegin() + kMatch);
  if (earlier == tokens.rend()) return {};
  std::vector<int32_t> draft;
  auto at = static_cast<size_t>(earlier.base() - tokens.begin());
  for (; static_cast<int32_t>(draft.size()) < n; ++at) {
    draft.push_back(at < tokens.size() ? tokens[at] : draft[at - tokens.size()]);
  }
  return draft;
}

}  // namespace lh
