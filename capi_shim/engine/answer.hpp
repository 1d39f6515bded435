// Answer task: tokens drawn one after the other, or forced by a grammar or a choice.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "llamaherd.h"
#include "logprobs.hpp"
#include "model.hpp"
#include "sampler.hpp"
#include "task.hpp"

namespace lh {

class Answer final : public Task {
 public:
  // `prompt`: tokens of the prompt, which penalties consider. Throws the same errors as
  // Sampler's constructor.
  Answer(const lh_model& model, const lh_request& request,
         const std::vector<int32_t>& prompt, SamplerCache& cache);

  // See Sampler.
  const Choices* sought() const { return sampler_->sought(); }
  // Adds a token that another sampler drew from the row; NULL: the row does not exist.
  void take(const StepServices& step, Client& client, int32_t token, const float* logits,
            LogitRow& row);
  // Writes the text of the selected choice, or decodes its tokens again to obtain their
  // rows of logits.
  void write_choice(const StepServices& step, Client& client, int32_t node);

  std::vector<int32_t> draft(const Client& client, int32_t n) const override;
  Answer* free_answer() override { return sampler_->is_free() ? this : nullptr; }
  void see(int32_t token) override { sampler_->see(token); }
  void start(const StepServices& step, Client& client) override;
  void read(Client& client, int32_t i, float* logits, LogitRow& row) noexcept override;
  void settle(const StepServices& step, BatchPart& part, LogitRow& row) override;
  void finish(Client& client) override;
  bool hides_text() const override { return sampler_ && sampler_->has_choices(); }
  void describe(lh_client_info& info) const override;

 private:
  void sample_row(const StepServices& step, const BatchPart& part, LogitRow& row);
  int32_t next_token(const StepServices& step, LogitRow& row);
  void add_forced(const StepServices& step, Client& client);
  void accept(const StepServices& step, Client& client, int32_t token);

  std::unique_ptr<Sampler> sampler_;    // null once the answer has ended
  std::unique_ptr<Logprobs> logprobs_;  // null if not requested
  const bool may_draft_;
  const bool steps_forced_;     // decode one forced token per step
  std::deque<int32_t> forced_;  // forced tokens still to append
};

// Returns draft tokens from repetitions in a text: the n tokens that followed the most
// recent earlier occurrence of the last six tokens; no tokens if there is no earlier
// occurrence. A. Saxena, "Prompt Lookup Decoding" (2023); docs/decisions/0027.
std::vector<int32_t> prompt_lookup(const std::vector<int32_t>& tokens, int32_t n);

}  // namespace lh
