// Computes embeddings of texts in a separate llama_context, with many texts per batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "context.hpp"
#include "llamaherd.h"
#include "model.hpp"

struct lh_embedder {
 public:
  lh_embedder(const lh_model& model, const lh_embedder_params& params);

  void run(const int32_t* tokens, const int64_t* offsets, int32_t n_texts, float* out);
  void abort(bool on) { abort_flag_ = on; }

 private:
  // One token of the current texts.
  struct Place {
    int32_t text;
    int32_t position;
  };

  llama_context_ptr make_context();
  bool computes_at_once() const { return memory_ == nullptr || !is_causal_; }
  void check(const int32_t* tokens, const int64_t* offsets, int32_t n_texts) const;
  int32_t n_tokens(int32_t text) const;
  bool is_pooled(const Place& place) const;
  void compute(const std::vector<Place>& places, bool with_rows);
  void take_row(int32_t text, const float* row);

  const std::shared_ptr<const lh_model> held_model_;  // first member, so destroyed last
  const lh_model& model_;
  const lh_embedder_params params_;
  std::atomic<bool> abort_flag_{false};
  llama_context_ptr ctx_;
  llama_memory_t memory_;  // null: the model reads a text as a whole and keeps no cells
  const bool is_causal_;
  const int32_t n_embd_;
  lh::Batch batch_;

  // Arrays of the current run.
  const int32_t* tokens_ = nullptr;
  const int64_t* offsets_ = nullptr;
  std::vector<double> sums_;  // double[n_texts, n_embd], sums of the pooled rows
};
