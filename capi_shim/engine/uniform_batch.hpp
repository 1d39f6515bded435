// Batches whose computations have the same shape for every set of clients. The
// deterministic mode uses them, see docs/decisions/0012.
#pragma once

#include "batch_builder.hpp"

namespace lh {

class UniformBatch final : public BatchBuilder {
 public:
  UniformBatch(const Positions& positions, const BatchLimits& limits)
      : BatchBuilder(positions, limits) {}

 private:
  void choose_parts(const std::vector<Client*>& clients, int32_t draft_rows) override;
  void choose(const std::vector<Client*>& clients, int32_t room);
  void add_parts() override;
  void add_prompts();
  void add_answers();

  bool is_prompts_ = false;  // prompts (true) or answers (false)
  int32_t n_prompts_ = 0;    // batches of prompts since the last batch of answers
};

}  // namespace lh
