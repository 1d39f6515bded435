// Object that a newrllama_context_handle points to: plans and runs the prompts of a call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine.hpp"
#include "herd.hpp"
#include "newrllama_capi.h"

struct newrllama_context {
 public:
  // Throws lh::Error that names an argument out of range.
  newrllama_context(const lh_model& model, int32_t n_ctx, int32_t n_threads,
                    int32_t n_seq_max);

  // Answers the prompts. Returns false after `abort`. Concurrent calls run one after the
  // other.
  bool run(std::vector<lh::HerdPrompt> prompts, const newrllama_parallel_params& params,
           std::vector<lh::HerdResult>& results);
  void abort() { abort_flag_ = true; }

  const lh_model& model() const { return model_; }
  // Returns the statistics of the last call as one line.
  std::string stats_line();

 private:
  // Division of n_ctx cells among the sequences for the prompts of a call.
  struct Layout {
    int32_t n_slots;
    int32_t n_hold_max;
    int32_t n_ctx_seq;  // cells of each sequence
  };
  Layout plan(const std::vector<lh::HerdPrompt>& prompts, const lh::PrefixTree& tree,
              int32_t max_tokens) const;
  void prepare_engine(const Layout& layout);

  const lh_model& model_;
  int32_t n_ctx_;
  int32_t n_threads_;
  int32_t n_slots_;
  std::atomic<bool> abort_flag_{false};
  std::mutex mutex_;  // one call at a time; guards the members below
  std::unique_ptr<lh_engine> engine_;
  std::string stats_line_;
};
