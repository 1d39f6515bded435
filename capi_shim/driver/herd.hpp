// Compact driver for C: runs a set of prompts on an engine. (Python has its own driver
// for the same engine, the scheduler of python_core, with more policy; see
// docs/decisions.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine.hpp"
#include "prefix_tree.hpp"

namespace lh {

struct HerdPrompt {
  std::vector<int32_t> tokens;
  std::string error;  // error if tokenization failed; the prompt then fails
};

struct HerdSettings {
  lh_sampling_params sampling;
  int32_t max_tokens;
  int32_t n_slots;     // prompts that run at the same time
  int32_t n_hold_max;  // sequences for shared prefixes, in addition to the slots
  int32_t n_ctx;       // maximum number of cells of a prompt with its answer, as set by
                       // the user
  int64_t call = 0;    // number of the call in the engine's statistics
};

// herd_prefixes returns the tree of shared prefixes whose fork saves time, for prompts
// with answers of up to `max_tokens`. prefix_depth returns its maximum nesting depth.
PrefixTree herd_prefixes(const std::vector<HerdPrompt>& prompts, int32_t max_tokens);
int32_t prefix_depth(const PrefixTree& tree);

struct HerdResult {
  bool failed = true;
  std::string text;  // answer or error message
};

// Runs prompts on an engine that has a sequence for every slot and every held prefix,
// each with enough cells for the longest prompt and its answer (kv_unified = 0).
class Herd {
 public:
  Herd(lh_engine& engine, std::vector<HerdPrompt> prompts, PrefixTree tree,
       const HerdSettings& settings);

  // Answers every prompt. Returns false if lh_engine::abort ended the run; finished
  // answers are kept. In both cases the engine is empty afterwards.
  bool run();

  const std::vector<HerdResult>& results() const { return results_; }
  int32_t n_fallbacks() const { return n_fallbacks_; }

 private:
  bool is_prefix(int64_t id) const { return id >= n_prompts(); }
  int64_t n_prompts() const { return static_cast<int64_t>(prompts_.size()); }
  int64_t prefix_id(int32_t node) const { return n_prompts() + node; }
  int32_t n_running_prompts() const;

  void admit();
  bool prepare_prefixes(int32_t prompt);
  std::vector<int32_t> prefixes_of(int32_t prompt) const;
  std::string why_impossible(int32_t prompt) const;
  void submit_prompt(int32_t prompt);
  void submit_prefix(int32_t node);
  void release_prefixes(size_t keep);

  void step();
  lh_status run_engine(const std::vector<int64_t>* ids, lh_run_result& result,
                       std::string& message);
  void collect(int64_t id);
  void isolate(const std::vector<int64_t>& ids);

  lh_engine& engine_;
  std::vector<HerdPrompt> prompts_;
  HerdSettings settings_;
  PrefixTree tree_;
  std::vector<HerdResult> results_;
  // prefixes that failed; their prompts run without a prefix
  std::vector<bool> bad_prefix_;
  std::vector<int32_t> path_;     // held prefixes, outermost first
  std::vector<int64_t> running_;  // ids, in order of admission
  size_t next_ = 0;               // index into tree_.order
  int32_t n_fallbacks_ = 0;
  bool aborted_ = false;
};

}  // namespace lh
