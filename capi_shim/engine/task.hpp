// Kinds of clients: prefix with forks, answer, score, and thought before an answer or a
// score.
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

  // Returns null if libllama has no such row.
  float* find_logits(int32_t i_logits) const noexcept;
};

// Task of a client: selects the rows of logits that the client needs, and processes them.
// The engine calls each function at most a few times per client and step.
class Task {
 public:
  static constexpr int32_t kNoRow = std::numeric_limits<int32_t>::max();

  enum class Kind : uint8_t {
    kAnswer,
    kPrefix,  // held after prefill, with one of the highest sequence ids
    kScore,   // the tokens are the prompt and a path, which is later removed from the
              // cache
    kThought  // the tokens after the prompt do not belong to the answer
  };

  explicit Task(Kind kind) : kind_(kind) {}
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  bool is_prefix() const { return kind_ == Kind::kPrefix; }
  bool has_paths() const { return kind_ == Kind::kScore; }
  bool is_thought() const { return kind_ == Kind::kThought; }

  // Returns the position of the first token whose logits are read; the logits of all
  // later tokens are read as well. kNoRow: no logits are read. By default the last token.
  virtual int32_t first_row(const Client& client) const;
  // Returns the maximum number of tokens that the client may still write before its
  // answer.
  virtual int32_t n_before_answer(const Client& /*client*/) const { return 0; }
  // Returns at most n candidate tokens to decode together with the last one.
  virtual std::vector<int32_t> draft(const Client& /*client*/, int32_t /*n*/) const {
    return {};
  }

  // Returns this task as an Answer if the answer may begin with any tokens that another
  // sampler drew; otherwise null.
  virtual Answer* free_answer() { return nullptr; }
  // Adds a token of the thought before the task, so that penalties consider this token.
  virtual void see(int32_t /*token*/) {}
  // Starts the task before any token after the prompt is computed. The function may end
  // the client, or replace the client's task as its last action.
  virtual void start(const StepServices& /*step*/, Client& /*client*/) {}
  // Reads the i-th requested row of this step; NULL if libllama lacks it. Calls for
  // different rows may run in parallel.
  virtual void read(Client& client, int32_t i, float* logits, LogitRow& row) noexcept = 0;
  // Continues or ends the client after all rows of the part were read, even if there were
  // none. May replace the client's task as its last action.
  virtual void settle(const StepServices& step, BatchPart& part, LogitRow& row) = 0;

  // Called when the client has ended.
  virtual void finish(Client& /*client*/) {}
  // Discards saved state that can no longer be used.
  virtual void drop_saved() {}
  // Tests whether the text is hidden until the end.
  virtual bool hides_text() const { return false; }
  // Adds the results that only this kind of task has.
  virtual void describe(lh_client_info& /*info*/) const {}

 private:
  const Kind kind_;
};

}  // namespace lh
