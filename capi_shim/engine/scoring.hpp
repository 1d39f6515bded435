// Score task: computes log-probabilities of given continuations, one path after the
// other. The task also searches for the most probable choice; the client then continues
// as an answer.
#pragma once

#include <memory>

#include "answer.hpp"
#include "batch_builder.hpp"
#include "llamaherd.h"
#include "model.hpp"
#include "score.hpp"
#include "task.hpp"

namespace lh {

// Returns the method of appending the paths of a score to a prompt of n_prompt tokens.
Score::Way way_of_score(const Score& score, int32_t n_prompt, const lh_model& model,
                        const lh_engine_params& params, const BatchLimits& limits);

class Scoring final : public Task {
 public:
  // then: the answer task, which writes the best continuation; NULL: the scores are the
  // result.
  explicit Scoring(std::unique_ptr<Score> score, std::unique_ptr<Answer> then = nullptr)
      : Task(Kind::kScore), score_(std::move(score)), then_(std::move(then)) {}

  int32_t first_row(const Client& client) const override;
  void see(int32_t token) override {
    if (then_) then_->see(token);
  }
  void read(Client& client, int32_t i, float* logits, LogitRow& row) noexcept override;
  void settle(const StepServices& step, BatchPart& part, LogitRow& row) override;
  void finish(Client& client) override;
  void drop_saved() override { score_->start = {}; }
  void describe(lh_client_info& info) const override;

 private:
  bool go_on(Client& client, KvCache& kv);

  const std::unique_ptr<Score> score_;
  std::unique_ptr<Answer> then_;
};

}  // namespace lh
