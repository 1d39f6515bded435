// A compact driver for C: runs a whole set of prompts through an engine. (Python has its
// own, python_core's scheduler, with more policy on the same engine; see docs/decisions.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine.hpp"
#include "prefix_tree.hpp"

namespace lh {

struct HerdPrompt {
  std::vector<int32_t> tokens;
  std::string error;  // set if the text could not be tokenized; the prompt then fails
};

struct HerdSettings {
  lh_sampling_params sampling;
  int32_t max_tokens;
  int32_t n_slots;     // prompts that run at once
  int32_t n_hold_max;  // sequences for shared prefixes, on top of the slots
  int32_t n_ctx;       // cells that a prompt and its answer may take, as the user said it
  int64_t call = 0;    // number under which the engine counts it
};

// The tree of the prompts' shared prefixes, and how many of them lie around one prompt.
// Prefixes that are worth a fork, for prompts with answers of up to `max_tokens`.
PrefixTree herd_prefixes(const std::vector<HerdPrompt>& prompts, int32_t max_tokens);
int32_t prefix_depth(const PrefixTree& tree);

struct HerdResult {
  bool failed = true;
  std::string text;  // the answer, or why there is none
};

// The engine must have a sequence for every slot and held prefix, each with room for the
// longest prompt and its answer (kv_unified = 0).
class Herd {
 public:
  Herd(lh_engine& engine, std::vector<HerdPrompt> prompts, PrefixTree tree,
       const HerdSettings& settings);

  // Answers every prompt. Returns false if lh_engine::abort ended it; what had finished
  // is kept. The engine is empty afterwards in any case.
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
  std::vector<int32_t> wanted_prefixes(int32_t prompt) const;
  std::string why_impossible(int32_t prompt) const;
  void submit_prompt(int32_t prompt);
  void submit_prefix(int32_t node);
  void release_prefixes(size_t keep);

  void step();
  lh_status run_engine(const std::vector<int64_t>* ids, lh_run_result& result,
                       std::string& message);
  void collect(int64_t id);
  void isolate(const std::vector<int64_t>& ids);
  void fail(int64_t id, const std::string& message);

  lh_engine& engine_;
  std::vector<HerdPrompt> prompts_;
  HerdSettings settings_;
  PrefixTree tree_;
  std::vector<HerdResult> results_;
  std::vector<bool> bad_prefix_;  // could not be computed: its prompts go alone
  std::vector<int32_t> path_;     // prefixes in the engine, outermost first
  std::vector<int64_t> running_;  // ids, in the order of admission
  size_t next_ = 0;               // place in tree_.order
  int32_t n_fallbacks_ = 0;
  bool aborted_ = false;
};

}  // namespace lh
