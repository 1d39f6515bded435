// The second half of a step: reads the logits of a decoded batch and samples a token for
// each client.
#pragma once

#include <cstdint>
#include <vector>

#include "batch_builder.hpp"
#include "kv_cache.hpp"
#include "llama.h"
#include "logit_row.hpp"
#include "model.hpp"
#include "statistics.hpp"

namespace lh {

class StepSampler {
 public:
  // What is given must outlive it. n_threads: those that read rows of logits.
  StepSampler(const lh_model& model, llama_context* ctx, KvCache& kv,
              Statistics& statistics, int32_t n_threads);

  // Ends a client whose answer is complete, or that fails.
  void sample(std::vector<BatchPart>& parts);
  // Draws a client's first token from the logits that were kept of its prompt.
  void sample_first(Client& client);

  // Adds the tokens that must come next to the client's answer, which this may end. The
  // client may not have been computed yet.
  void add_forced(Client& client);

 private:
  // A row of logits to be read.
  struct Row {
    BatchPart* part;
    size_t i_part;
    int32_t i;  // of the part's
    float* logits;
  };

  float* find_logits(int32_t i_logits);
  void read_rows(std::vector<BatchPart>& parts);
  void sample_part(BatchPart& part, LogitRow& row);
  void sample_row(const BatchPart& part, LogitRow& row);
  void keep(const BatchPart& part, LogitRow& row);
  int32_t next_token(Client& client, LogitRow& row);
  void accept(Client& client, int32_t token);
  void settle_score(const BatchPart& part);
  void answer_best(Client& client);

  const lh_model& model_;
  llama_context* ctx_;
  KvCache& kv_;
  Statistics& statistics_;
  int32_t n_threads_;
  std::vector<LogitRow> rows_;  // one for each part
  std::vector<float> kept_;     // a copy, which a sampler may write to
  std::vector<Row> to_read_;
  std::vector<llama_token_data> candidates_;
};

}  // namespace lh
