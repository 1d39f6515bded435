// Sampler chain of one client: from a row of logits to the next token.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "choices.hpp"
#include "constraint.hpp"
#include "dry.hpp"
#include "llama-cpp.h"
#include "llamaherd.h"
#include "logit_row.hpp"
#include "model.hpp"

namespace lh {

// Cache of parts of samplers that are large or slow to create. For example, DRY reads the
// whole vocabulary. All clients with the same settings share them. The cache has the most
// recent part of each kind. (Grammars are in PreparedConstraints.)
class SamplerCache {
 public:
  using Bias = std::vector<std::pair<int32_t, float>>;  // tokens and their bias

  // If `paths` is null, the tokenizer splits the choices, independent of the prompt.
  std::shared_ptr<const Choices> choices(const lh_model& model,
                                         const lh_sampling_params& params,
                                         const lh_choice_paths* paths);
  std::shared_ptr<const Bias> bias(const lh_sampling_params& params);
  std::shared_ptr<const DryBreakers> breakers(const lh_model& model,
                                              const lh_sampling_params& params);

 private:
  std::shared_ptr<const Choices> choices_;
  std::shared_ptr<const Bias> bias_;
  std::vector<std::string> breaker_texts_;
  std::shared_ptr<const DryBreakers> breakers_;
};

// Penalties for tokens in a window, applied only to the logits of these tokens. Same
// formula as llama_sampler_init_penalties.
class Penalties {
 public:
  Penalties() = default;
  explicit Penalties(const lh_sampling_params& params);
  bool enabled() const { return window_ != 0; }
  void accept(int32_t token);
  void apply(float* logits) const;

 private:
  int32_t window_ = 0;  // window in tokens; -1: all
  float repeat_ = 1.0F;
  float frequency_ = 0.0F;
  float presence_ = 0.0F;
  std::deque<int32_t> recent_;
  std::unordered_map<int32_t, int32_t> counts_;
};

// Throws the same errors as Sampler's constructor, except the errors of DRY.
void check_sampling(const lh_model& model, const lh_sampling_params& params);

class Sampler {
 public:
  static constexpr int32_t kNothingLeft = -1;  // neither a token nor the end is allowed
  static constexpr int32_t kEnd = -2;          // the answer ends here without a token

  // Throws Error: LH_INVALID_ARGUMENT for a value out of range, LH_SAMPLER_ERROR for an
  // invalid grammar. `paths`: see lh_request.
  Sampler(const lh_model& model, const lh_sampling_params& params, SamplerCache& cache,
          const lh_choice_paths* paths = nullptr);

  bool is_greedy() const { return greedy_; }
  // Tests whether every token may be drawn, because there is no constraint and no bias.
  bool is_free() const {
    return !constraint_ && bias_->empty() && !ignore_eos_ && min_tokens_ == 0;
  }
  // Tests whether a token ends the answer without being part of it.
  bool ends_answer(int32_t token) const {
    return model_->is_eog(token) || is_stop_token(token);
  }
  // Number of tokens at the start of the answer during which stop texts do not end it.
  int32_t min_tokens() const { return min_tokens_; }

  // Adds a prompt token for penalties and DRY.
  void see(int32_t token);

  // First half of drawing a token: applies bias, masks and penalties to a row of
  // float32[n_vocab], reads the row, and finds the tokens that the constraint allows. May
  // run in parallel with other samplers.
  void read(float* logits, LogitRow& row) noexcept;

  // Second half: draws the next token from the row and accepts it. `candidates` is a work
  // buffer.
  int32_t sample(LogitRow& row, std::vector<llama_token_data>& candidates);

  // Returns the tokens that must follow independently of the logits. Call take() for
  // each.
  std::vector<int32_t> forced_tokens();
  void take(int32_t token);

  // Tests whether only the end of the answer or only known text can follow.
  bool is_settled() const { return constraint_ && constraint_->is_at_end(); }

  // Tests whether the first n_bytes of the tokens' text are a complete answer.
  bool is_whole(const std::vector<int32_t>& tokens, size_t n_bytes) const;

  // Returns a message that explains kNothingLeft after `text`.
  std::string why_stuck(const std::string& text) const;

  bool has_choices() const { return choice_ != nullptr; }
  // Returns the choices if the answer is the most probable choice under the model itself;
  // null if the answer is drawn token by token.
  const Choices* sought() const;
  // Sets the most probable choice by its last node. The answer then follows the path to
  // it.
  void aim_at(int32_t node) { choice_->aim_at(node); }
  int32_t aimed_token() const { return choice_->aimed_token(); }
  // Returns the chosen text of the answer.
  std::string choice(const std::string& written, bool is_complete) const {
    return choice_->text(written, is_complete);
  }

 private:
  void add_chain(llama_sampler* sampler);
  bool is_forbidden(int32_t token) const;
  bool is_stop_token(int32_t token) const;
  bool hides_ends() const { return n_taken_ < min_tokens_; }
  int32_t pick(LogitRow& row, bool is_bound, std::vector<llama_token_data>& candidates);
  void fill(const float* logits, bool is_bound,
            std::vector<llama_token_data>& candidates);

  const lh_model* model_;
  uint32_t seed_;
  bool greedy_;
  bool ignore_eos_;
  int32_t min_tokens_;
  int32_t n_taken_ = 0;  // tokens of the answer, counted up to min_tokens_
  std::vector<int32_t> stop_tokens_;
  int32_t top_k_first_ = 0;  // > 0: the chain needs only the k largest logits
  std::shared_ptr<const SamplerCache::Bias> bias_;
  Penalties penalties_;
  std::unique_ptr<Dry> dry_;
  std::shared_ptr<const Constraint> start_;  // null: the answer is unconstrained
  std::unique_ptr<Constraint> constraint_;
  ChoiceConstraint* choice_ = nullptr;  // the constraint, if it is one of choices
  llama_sampler_ptr chain_;             // null if greedy
};

}  // namespace lh
