// Second half of a step: reads the logits of a decoded batch and samples a token for each
// client.
#pragma once

#include <cstdint>
#include <vector>

#include "batch_builder.hpp"
#include "kv_cache.hpp"
#include "llama.h"
#include "logit_row.hpp"
#include "model.hpp"
#include "statistics.hpp"
#include "task.hpp"

namespace lh {

class StepSampler {
 public:
  // The arguments must outlive the object. n_outputs: maximum rows of logits of a batch.
  // n_threads: number of threads that read these rows.
  StepSampler(const lh_model& model, llama_context* ctx, KvCache& kv,
              Statistics& statistics, int32_t n_outputs, int32_t n_threads);

  // Samples every part. Ends each client whose answer is complete or that fails.
  void sample(std::vector<BatchPart>& parts);
  // Draws a client's first token from the logits that its prefix kept.
  void sample_first(Client& client);

  const StepServices& services() const { return services_; }

 private:
  // Row of logits to read.
  struct Row {
    Client* client;
    int32_t i;  // index of the row in the client's part
    float* logits;
  };

  void read_rows(std::vector<BatchPart>& parts);

  const lh_model& model_;
  int32_t n_threads_;
  // one per row of the batch, because a score may read several rows at the same time
  std::vector<LogitRow> rows_;
  std::vector<float> kept_;  // copy of a row that a sampler may modify
  std::vector<Row> to_read_;
  std::vector<llama_token_data> candidates_;
  const StepServices services_;
};

}  // namespace lh
