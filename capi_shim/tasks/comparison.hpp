// Difference between the predictions of two models for the same tokens.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "context.hpp"
#include "llamaherd.h"
#include "model.hpp"

struct lh_comparison {
 public:
  lh_comparison(const lh_model& base, const lh_model& other, int32_t n_threads);

  void add(const int32_t* tokens, int32_t n_tokens);
  void abort(bool on) { abort_flag_ = on; }
  lh_comparison_result result() const;

 private:
  llama_context_ptr make_context(const lh_model& model, int32_t n_threads);
  void score(int32_t row, int32_t next_token);

  // First members, so destroyed last.
  const std::shared_ptr<const lh_model> held_base_;
  const std::shared_ptr<const lh_model> held_other_;
  std::atomic<bool> abort_flag_{false};
  int32_t n_vocab_;
  llama_context_ptr base_;
  llama_context_ptr other_;
  lh::Batch batch_;
  std::vector<double> kl_;  // per scored token, in nats
  double base_nll_ = 0;     // sums of -log p(token)
  double other_nll_ = 0;
  int64_t n_same_top_ = 0;
};
