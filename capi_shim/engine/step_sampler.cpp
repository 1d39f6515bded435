#include "step_sampler.hpp"

#include <cmath>

#include "guard.hpp"
#include "score_steps.hpp"
#include "threads.hpp"

namespace lh {
namespace {

// Fewer logits one thread has read before another one is awake.
constexpr int64_t kWorthSharing = 1'000'000;

void read_row(const BatchPart& part, LogitRow& row) {
  Client& client = *part.client;
  if (part.logits == nullptr || !client.sampler) return;
  if (client.logprobs) client.logprobs->read(part.logits, row);
  client.sampler->read(part.logits, row);
}

}  // namespace

StepSampler::StepSampler(const lh_model& model, llama_context* ctx, KvCache& kv,
                         Statistics& statistics, int32_t n_threads)
    : model_(model),
      ctx_(ctx),
      kv_(kv),
      statistics_(statistics),
      n_threads_(n_threads),
      rows_(static_cast<size_t>(kv.n_seq_max()), LogitRow(model.n_vocab())) {}

void StepSampler::sample(std::vector<BatchPart>& parts) {
  read_rows(parts);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].i_logits < 0) continue;
    if (parts[i].client->is_prefix()) {
      keep(parts[i], rows_[i]);
    } else if (parts[i].client->score) {
      settle_score(parts[i]);
    } else {
      sample_part(parts[i], rows_[i]);
    }
  }
}

void StepSampler::sample_first(Client& client) {
  kept_ = *client.logits;
  BatchPart part{&client, 0};
  part.logits = kept_.data();
  if (client.score) {
    client.logits.reset();
    part.n_rows = 1;
    client.score->read(0, part.logits);
    settle_score(part);
    return;
  }
  read_row(part, rows_.front());
  sample_row(part, rows_.front());
}

// Others draw from it later, so that what is wrong with it must show now.
void StepSampler::keep(const BatchPart& part, LogitRow& row) {
  Client& prefix = *part.client;
  try {
    if (part.logits == nullptr) throw Error(LH_DECODE_ERROR, "libllama gave no logits");
    row.find(part.logits);
    if (!std::isfinite(row.highest())) {
      throw Error(LH_DECODE_ERROR, "the model's logits are not finite numbers");
    }
    prefix.logits = std::make_shared<const std::vector<float>>(
        part.logits, part.logits + model_.n_vocab());
  } catch (const std::exception& e) {
    prefix.end(kv_, LH_FINISH_ERROR, e.what());
  }
}

// Null if libllama has none.
float* StepSampler::find_logits(int32_t i_logits) {
  try {
    return llama_get_logits_ith(ctx_, i_logits);
  } catch (...) {
    return nullptr;
  }
}

// All rows but those of draft tokens. To read them is most of what sampling takes.
void StepSampler::read_rows(std::vector<BatchPart>& parts) {
  to_read_.clear();
  // One after the other: libllama puts rows in order when the first is asked for.
  for (size_t i = 0; i < parts.size(); ++i) {
    BatchPart& part = parts[i];
    for (int32_t row = 0; row < part.n_rows; ++row) {
      to_read_.push_back({&part, i, row, find_logits(part.i_logits + row)});
    }
    if (part.n_rows > 0) part.logits = to_read_.back().logits;
  }
  const int64_t n_logits = static_cast<int64_t>(to_read_.size()) * model_.n_vocab();
  for_each(to_read_.size(), n_logits < kWorthSharing ? 1 : n_threads_, [&](size_t i) {
    const Row& row = to_read_[i];
    Score* score = row.part->client->score.get();
    if (score != nullptr) {
      score->read(score->n_read() + row.i, row.logits);
    } else {
      read_row(*row.part, rows_[row.i_part]);
    }
  });
}

// A score's rows were read: it goes on, or it is done.
void StepSampler::settle_score(const BatchPart& part) {
  Client& client = *part.client;
  try {
    if (!client.score->count_rows(part.n_rows)) {
      throw Error(LH_DECODE_ERROR, part.logits == nullptr
                                       ? "libllama gave no logits"
                                       : "the model's logits are not finite numbers");
    }
    if (go_on_with_score(client, kv_)) return;
    if (client.sampler) {
      answer_best(client);
    } else {
      client.end(kv_, LH_FINISH_EOG, "");
    }
  } catch (const std::exception& e) {
    client.end(kv_, LH_FINISH_ERROR, e.what());
  } catch (...) {
    client.end(kv_, LH_FINISH_ERROR, "an exception of an unknown type while scoring");
  }
}

// The most probable choice is known: what tells it from the others is its answer.
void StepSampler::answer_best(Client& client) {
  client.sampler->aim_at(client.score->best());
  client.score.reset();
  client.tokens.resize(static_cast<size_t>(client.n_prompt));
  if (!client.logprobs) {
    while (client.is_active()) {
      const int32_t token = client.sampler->aimed_token();
      client.sampler->take(token);
      accept(client, token);
    }
    return;
  }
  // Its tokens are computed again, for the rows that they are drawn from.
  client.state = LH_STATE_PREFILL;
  client.lost_at = -1;
  client.verified = false;
  if (client.n_prompt == 1 || !kv_.roll_back(client.seq_id, client.n_prompt - 1)) {
    kv_.clear(client.seq_id);
  }
}

// Draft tokens stay as far as they are what is drawn, or what must come.
void StepSampler::sample_part(BatchPart& part, LogitRow& row) {
  Client& client = *part.client;
  size_t n_known = client.tokens.size();  // tokens that the rows are sampled up to
  sample_row(part, row);
  int32_t i_logits = part.i_logits;
  for (const int32_t token : part.draft) {
    if (!client.is_active() || client.tokens[n_known] != token) break;
    kv_.advance(client.seq_id, 1);
    statistics_.add(client, &lh_stats::n_decode, int64_t{1});
    statistics_.add(client, &lh_stats::n_draft, int64_t{1});
    ++i_logits;
    if (++n_known < client.tokens.size()) continue;
    part.logits = find_logits(i_logits);
    read_row(part, row);
    sample_row(part, row);
  }
  if (!part.draft.empty() && client.is_active()) kv_.rewind(client.seq_id);
}

void StepSampler::sample_row(const BatchPart& part, LogitRow& row) {
  Client& client = *part.client;
  try {
    if (part.logits == nullptr) throw Error(LH_DECODE_ERROR, "libllama gave no logits");
    const bool is_drawn = client.forced.empty();
    const int32_t token = next_token(client, row);
    if (token == Sampler::kNothingLeft) {
      throw Error(LH_SAMPLER_ERROR, client.sampler->why_stuck(client.text.text()));
    }
    if (token == Sampler::kEnd) {
      client.end(kv_, LH_FINISH_EOG, "");
    } else {
      client.state = LH_STATE_DECODE;
      const bool is_kept = client.logprobs && is_drawn && !model_.is_eog(token);
      if (is_kept) {
        client.logprobs->accept(token, static_cast<size_t>(client.n_generated()));
      }
      accept(client, token);
      add_forced(client);
    }
  } catch (const std::exception& e) {
    client.end(kv_, LH_FINISH_ERROR, e.what());
  } catch (...) {
    client.end(kv_, LH_FINISH_ERROR, "an exception of an unknown type while sampling");
  }
}

int32_t StepSampler::next_token(Client& client, LogitRow& row) {
  if (client.forced.empty()) return client.sampler->sample(row, candidates_);
  const int32_t token = client.forced.front();
  client.forced.pop_front();
  client.sampler->take(token);
  return token;
}

void StepSampler::add_forced(Client& client) {
  while (client.is_active() && client.forced.empty()) {
    const std::vector<int32_t> tokens = client.sampler->forced_tokens();
    if (tokens.empty()) return;
    if (client.steps_forced) {
      client.forced.assign(tokens.begin(), tokens.end());
      return;
    }
    for (const int32_t token : tokens) {
      if (!client.is_active()) return;
      client.sampler->take(token);
      accept(client, token);
    }
  }
}

void StepSampler::accept(Client& client, int32_t token) {
  if (model_.is_eog(token)) {
    client.end(kv_, LH_FINISH_EOG, "");
    return;
  }
  client.tokens.push_back(token);
  client.logits.reset();
  if (client.logprobs) client.logprobs->fill(static_cast<size_t>(client.n_generated()));
  statistics_.add(client, &lh_stats::n_generated, int64_t{1});
  if (client.n_generated() == 1) client.t_first_s = seconds_since(client.submitted);
  if (client.text.append(model_.piece(token))) {
    client.end(kv_, LH_FINISH_STOP, "");
  } else if (client.sampler->is_settled()) {
    client.end(kv_, LH_FINISH_EOG, "");  // without steps to be told so
  } else if (client.n_generated() == client.max_tokens) {
    client.end(kv_, LH_FINISH_LENGTH, "");
  }
}

}  // namespace lh
