// DRY, a penalty for tokens that would go on with a repetition. The same numbers as
// llama_sampler_init_dry gives, which makes room for its whole window at once and copies
// the breakers for each client.
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

// Texts that end a repetition, as the ways in which tokens can hold them.
class DryBreakers {
 public:
  DryBreakers(const lh_model& model, const std::vector<std::string>& texts);

  // What may come behind the token, to be a breaker with it; null if it is in none.
  using Tails = std::vector<std::vector<int32_t>>;
  const Tails* tails(int32_t token) const;

  // Whether the token holds a breaker by itself.
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
  // The i-th token from the end.
  int32_t back(size_t i) const { return tokens_[tokens_.size() - 1 - i]; }
  size_t longest_repetition(size_t n) const;
  std::vector<size_t> repetitions(size_t n, size_t longest) const;
  bool is_behind(const std::vector<int32_t>& tail, size_t i) const;

  std::shared_ptr<const DryBreakers> breakers_;
  float multiplier_;
  float base_;
  size_t n_allowed_;
  int32_t window_;  // tokens; -1: all
  std::vector<int32_t> tokens_;
};

}  // namespace lh
