#include "step_sampler.hpp"

#include <algorithm>

#include "threads.hpp"

namespace lh {
namespace {

// Minimum number of logits for which a second thread saves time.
constexpr int64_t kWorthSharing = 1'000'000;

}  // namespace

StepSampler::StepSampler(const lh_model& model, llama_context* ctx, KvCache& kv,
                         Statistics& statistics, int32_t n_outputs, int32_t n_threads)
    : model_(model),
      n_threads_(n_threads),
      rows_(static_cast<size_t>(n_outputs), LogitRow(model.n_vocab())),
      services_{model, ctx, kv, statistics, candidates_} {
  to_read_.reserve(rows_.size());  // no allocation may lose the rows of a batch
}

void StepSampler::sample(std::vector<BatchPart>& parts) {
  read_rows(parts);
  size_t n_read = 0;
  for (BatchPart& part : parts) {
    n_read += static_cast<size_t>(part.n_rows);
    LogitRow& last = rows_[std::max<size_t>(n_read, 1) - 1];
    part.client->task->settle(services_, part, last);
  }
}

void StepSampler::sample_first(Client& client) {
  kept_ = *client.logits;
  BatchPart part{&client, 0};
  part.logits = kept_.data();
  part.n_rows = 1;
  client.task->read(client, 0, part.logits, rows_.front());
  client.task->settle(services_, part, rows_.front());
}

// Reads all rows except the rows of draft tokens. Reading is the main cost of sampling.
void StepSampler::read_rows(std::vector<BatchPart>& parts) {
  to_read_.clear();
  // This loop is sequential, because libllama reorders the rows on the first access.
  for (BatchPart& part : parts) {
    for (int32_t row = 0; row < part.n_rows; ++row) {
      to_read_.push_back({part.client, row, services_.find_logits(part.i_logits + row)});
    }
    if (part.n_rows > 0) part.logits = to_read_.back().logits;
  }
  const int64_t n_logits = static_cast<int64_t>(to_read_.size()) * model_.n_vocab();
  for_each(to_read_.size(), n_logits < kWorthSharing ? 1 : n_threads_, [&](size_t i) {
    const Row& row = to_read_[i];
    row.client->task->read(*row.client, row.i, row.logits, rows_[i]);
  });
}

}  // namespace lh
