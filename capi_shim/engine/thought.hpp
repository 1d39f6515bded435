// Thought task: text that a model writes between markers before its answer or its score.
// The client then continues with the answer or the score, as if the thought were a part
// of its prompt.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "answer.hpp"
#include "llamaherd.h"
#include "marker.hpp"
#include "model.hpp"
#include "sampler.hpp"
#include "task.hpp"

namespace lh {

struct WrittenThought;

// Checks a thought. Throws Error (LH_INVALID_ARGUMENT) unless the thought is valid for
// the model.
void check_thinking(const lh_thinking& thinking, const lh_model& model);
// Returns the maximum number of tokens between the prompt and the answer.
int64_t room_of(const lh_thinking& thinking);

class Thought final : public Task {
 public:
  // then: task after the thought. `prompt`: tokens that penalties consider.
  Thought(const lh_model& model, const lh_thinking& thinking,
          const std::vector<int32_t>& prompt, SamplerCache& cache,
          std::unique_ptr<Task> then, bool has_logprobs);

  int32_t n_before_answer(const Client& client) const override;
  void start(const StepServices& step, Client& client) override;
  void read(Client& client, int32_t i, float* logits, LogitRow& row) noexcept override;
  void settle(const StepServices& step, BatchPart& part, LogitRow& row) override;
  void finish(Client& client) override;
  void drop_saved() override { then_->drop_saved(); }
  void describe(lh_client_info& info) const override { then_->describe(info); }

 private:
  void open(const StepServices& step, BatchPart& part, int32_t token, LogitRow& row);
  void go_on(const StepServices& step, Client& client, int32_t token);
  void hold(int32_t token, std::string_view text);
  void flush(WrittenThought& thought, size_t n_held);
  void join_prompt(Client& client);
  std::vector<int32_t> behind_marker(const lh_model& model, Client& client,
                                     std::string_view piece) const;

  // The functions below may replace the client's task. This destroys the object on which
  // they are called.
  void write(const StepServices& step, Client& client, int32_t token,
             std::string_view piece, size_t n_before);
  void close_if_spent(const StepServices& step, Client& client);
  void close(const StepServices& step, Client& client, lh_thinking_closed how,
             const std::vector<int32_t>& next);
  void pass_on(const StepServices& step, Client& client, LogitRow& row);
  void pass_back(const StepServices& step, BatchPart& part, LogitRow& row);

  const int32_t n_vocab_;
  const int32_t budget_;
  const Marker start_;
  const Marker end_;
  const Marker after_;
  const std::vector<int32_t> closing_;
  std::unique_ptr<Sampler> sampler_;  // null if nothing is drawn
  std::unique_ptr<Task> then_;
  Answer* const free_;     // then_ if it is a free_answer(); otherwise null
  const bool keeps_rows_;  // keep the rows of all first tokens, not only of the first one

  bool is_opening_;                          // true until it is known whether the model
                                             // begins a thought
  std::unique_ptr<MarkerAtStart> at_start_;  // null after the first tokens
  MarkerSearch search_;
  std::vector<std::string> held_;         // pieces that may belong to a marker
  std::vector<std::vector<float>> rows_;  // logits of the tokens before the thought
};

}  // namespace lh
