// Batches that combine answers and prompts.
#pragma once

#include "batch_builder.hpp"

namespace lh {

class MixedBatch final : public BatchBuilder {
 public:
  MixedBatch(const Positions& positions, const BatchLimits& limits)
      : BatchBuilder(positions, limits) {}

 private:
  void choose_parts(const std::vector<Client*>& clients, int32_t draft_rows) override;
  void add_parts() override;
  int32_t answer_limit_of(const std::vector<Client*>& clients) const;
  int32_t add_paths(const std::vector<Client*>& clients);
  void sort_new(bool prefixes);
  void pad_parts();
  int32_t n_draft(int32_t draft_rows) const;
  void choose_drafts(int32_t draft_rows);
};

}  // namespace lh
