// Kinds of client: a prefix with forks, an answer, a score, a thought before them.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "llama.h"
#include "llamaherd.h"

namespace lh {

class Answer;
class KvCache;
class LogitRow;
class Statistics;
struct BatchPart;
struct Client;

// Services for tasks in the second half of a step.
struct StepServices {
  const lh_model& model;
  llama_context* ctx;
  KvCache& kv;
  Statistics& statistics;
  std::vector<llama_token_data>& candidates;  // buffer for drawing tokens

  // Null if libllama has no such row.
  float* find_logits(int32_t i_logits) const noexcept;
};

// Task of a client: selects the rows of logits that it requests and acts on them. The
// engine calls each function at most a few times per client and step.
class Task {
 public:
  static constexpr int32_t kNoRow = std::numeric_limits<int32_t>::max();

  // Properties used to build batches.
  struct Traits {
    bool is_prefix = false;  // held after prefill, in one of the highest sequence ids
    // the tokens are the prompt, then a path that is removed from the cache again
    bool has_paths = false;
    // the tokens after the prompt are not those of the answer
    bool is_thought = false;
  };

  explicit Task(Traits traits) : traits_(traits) {}
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  bool is_prefix() const { return traits_.is_prefix; }
  bool has_paths() const { return traits_.has_paths; }
  bool is_thought() const { return traits_.is_thought; }

  // Position of the first token whose logits are read; those of all later tokens are read
  // as well. kNoRow: none.
  virtual int32_t first_row(const Client& client) const = 0;
  // Maximum number of tokens that the client may still write before its answer.
  virtual int32_t n_before_answer(const Client& /*client*/) const { return 0; }
  // Returns at most n candidate tokens to decode together with the last one.
  virtual std::vector<int32_t> draft(const Client& /*client*/, int32_t /*n*/) const {
    return {};
  }

  // Returns the task as an answer if it accepts any first tokens that another sampler
  // drew, else null.
  virtual Answer* free_answer() { return nullptr; }
  // Adds a token of the thought before the task, which penalties consider.
  virtual void see(int32_t /*token*/) {}
  // Starts the task before anything after the prompt is computed. May end the client, or
  // replace its task as its last action.
  virtual void start(const StepServices& /*step*/, Client& /*client*/) {}
  // Reads the i-th requested row of this step; NULL if libllama lacks it. Calls for
  // different rows may run in parallel.
  virtual void read(Client& client, int32_t i, float* logits, LogitRow& row) noexcept = 0;
  // Continues or ends the client after all rows of the part were read, even if there were
  // none. May replace the client's task as its last action.
  virtual void settle(const StepServices& step, BatchPart& part, LogitRow& row) = 0;

  // Called when the client has ended.
  virtual void finish(Client& /*client*/) {}
  // Drops saved state that is no longer usable.
  virtual void drop_saved() {}
  // Tests whether the text is hidden until the end.
  virtual bool hides_text() const { return false; }
  // Adds the results specific to this kind of task.
  virtual void describe(lh_client_info& /*info*/) const {}

 private:
  const Traits traits_;
};

}  // namespace lh
