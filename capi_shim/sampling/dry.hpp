// DRY, a penalty for tokens that would continue a repetition. The results equal those of
// llama_sampler_init_dry, which allocates its whole window in advance and copies the
// breakers for each client.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "llama.h"
#include "llamaherd.h"
#include "model.hpp"

namespace lh {

// Texts that end a repetition (breakers), with all sequences of tokens that can contain
// them.
class DryBreakers {
 public:
  DryBreakers(const lh_model& model, const std::vector<std::string>& texts);

  // Returns the token sequences that complete a breaker after the token; null if the
  // token is in no breaker.
  using Tails = std::vector<std::vector<int32_t>>;
  const Tails* tails(int32_t token) const;

  // Tests whether the token alone contains a breaker.
  bool holds(int32_t token) const;

 private:
  void add(const lh_model& model, const std::string& text, int32_t token,
           const std::string& word);

  std::unordered_map<int32_t, Tails> tails_;
};

class Dry {
 public:
  Dry(std::shared_ptr<const DryBreakers> breakers, const lh_sampling_params& params);

  void accept(int32_t token) { tokens_.push_back(token); }
  void apply(llama_token_data_array& candidates) const;

 private:
  // Returns the i-th token from the end.
  int32_t back(size_t i) const { return tokens_[tokens_.size() - 1 - i]; }
  size_t longest_repetition(size_t n) const;
  std::vector<size_t> repetitions(size_t n, size_t longest) const;
  bool is_behind(const std::vector<int32_t>& tail, size_t i) const;

  std::shared_ptr<const DryBreakers> breakers_;
  float multiplier_;
  float base_;
  size_t n_allowed_;
  int32_t window_;  // window in tokens; -1: all
  std::vector<int32_t> tokens_;
};

}  // namespace lh
