#include "step_sampler.hpp"

#include "guard.hpp"
#include "threads.hpp"

namespace lh {
namespace {

// Fewer logits one thread has read before another one is awake.
constexpr int64_t kWorthSharing = 1'000'000;

void read_row(const BatchPart& part, LogitRow& row) {
  Sampler* sampler = part.client->sampler.get();
  if (part.logits != nullptr && sampler != nullptr) sampler->read(part.logits, row);
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
      keep(parts[i]);
    } else {
      sample_part(parts[i], rows_[i]);
    }
  }
}

void StepSampler::sample_first(Client& client) {
  kept_ = *client.logits;
  BatchPart part{&client, 0};
  part.logits = kept_.data();
  read_row(part, rows_.front());
  sample_row(part, rows_.front());
}

void StepSampler::keep(const BatchPart& part) {
  Client& prefix = *part.client;
  try {
    if (part.logits == nullptr) throw Error(LH_DECODE_ERROR, "libllama gave no logits");
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

// The first row of each part. To read them is most of what sampling takes.
void StepSampler::read_rows(std::vector<BatchPart>& parts) {
  int64_t n_logits = 0;
  // One after the other: libllama puts rows in order when the first is asked for.
  for (BatchPart& part : parts) {
    if (part.i_logits < 0) continue;
    part.logits = find_logits(part.i_logits);
    n_logits += model_.n_vocab();
  }
  for_each(parts.size(), n_logits < kWorthSharing ? 1 : n_threads_,
           [&](size_t i) { read_row(parts[i], rows_[i]); });
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
    const int32_t token = next_token(client, row);
    if (token == Sampler::kNothingLeft) {
      throw Error(LH_SAMPLER_ERROR, client.sampler->why_stuck(client.text.text()));
    }
    if (token == Sampler::kEnd) {
      client.end(kv_, LH_FINISH_EOG, "");
    } else {
      client.state = LH_STATE_DECODE;
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
  statistics_.add(client, &lh_stats::n_generated, int64_t{1});
  if (client.n_generated() == 1) client.t_first_s = seconds_since(client.submitted);
  if (client.text.append(model_.piece(token))) {
    client.end(kv_, LH_FINISH_STOP, "");
  } else if (client.sampler->is_settled(client.text.text())) {
    client.end(kv_, LH_FINISH_EOG, "");  // without steps to be told so
  } else if (client.n_generated() == client.max_tokens) {
    client.end(kv_, LH_FINISH_LENGTH, "");
  }
}

}  // namespace lh
