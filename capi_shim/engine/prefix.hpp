// Prefix task: computed once, then held for the requests forked from it.
#pragma once

#include "task.hpp"

namespace lh {

class Prefix final : public Task {
 public:
  // is_whole: the prefix is also a complete prompt, so the logits of its last token are
  // kept.
  explicit Prefix(bool is_whole) : Task(Kind::kPrefix), is_whole_(is_whole) {}

  int32_t first_row(const Client& client) const override;
  void read(Client&, int32_t, float*, LogitRow&) noexcept override {}
  void settle(const StepServices& step, BatchPart& part, LogitRow& row) override;

 private:
  const bool is_whole_;
};

}  // namespace lh
