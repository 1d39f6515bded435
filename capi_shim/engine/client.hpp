// Client: one request in progress, from its prompt to its last token.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kv_cache.hpp"
#include "llamaherd.h"
#include "positions.hpp"
#include "task.hpp"
#include "text.hpp"

namespace lh {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Text and state of a client's thought so far.
struct WrittenThought {
  TextBuffer text;
  bool is_there = false;  // false: the model has not opened a thought
  int32_t n_tokens = 0;   // tokens that the model wrote
  lh_thinking_closed closed = LH_THINKING_OPEN;
};

struct Client {
  int64_t id = 0;
  int64_t order = 0;  // rank in order of submission
  int32_t priority = 0;
  bool is_watched = false;  // report the first token as an event
  bool keeps = false;       // keep the cells if the request ends by itself
  // maximum tokens whose cells may be kept: later cells may be of other paths of a score
  int32_t n_kept_max = INT32_MAX;
  lh_state state = LH_STATE_PREFILL;
  lh_finish finish = LH_FINISH_NONE;
  int32_t seq_id = -1;

  // tokens of the prompt, then of a thought, then generated tokens
  std::vector<int32_t> tokens;
  int32_t n_prompt = 0;   // number of prompt tokens, including those of a thought that
                          // has ended
  int32_t n_thought = 0;  // number of tokens of that thought
  int32_t n_reused = 0;
  int32_t max_tokens = 0;  // 0: a prefix

  // Logits after the prompt's last token. A prefix that is a whole prompt keeps them; its
  // forks keep them until their first token.
  std::shared_ptr<const std::vector<float>> logits;
  std::unique_ptr<Task> task;
  uint32_t seed = 0;
  TextBuffer text;
  bool is_complete = false;                 // see lh_client_info
  std::unique_ptr<WrittenThought> thought;  // null if none was requested
  lh_status code = LH_OK;                   // of an error that the engine found
  std::string message;                      // error message

  lh_stats taken{};  // resources that the client used, see Statistics
  // statistics of the client's call, updated together with `taken`
  std::shared_ptr<lh_stats> of_call;
  Clock::time_point submitted;
  double t_first_s = 0;  // from submission to the first token; 0: none yet

  bool verified = false;       // whether the position was compared with the KV cache
                               // since its last change
  int32_t lost_at = -1;        // last position before the state was lost
  std::vector<uint8_t> saved;  // KV cells while paused, or during a resize
  int32_t n_saved = 0;         // number of saved cells
  int32_t n_before = 0;        // tokens decoded before the pause

  bool is_active() const { return state == LH_STATE_PREFILL || state == LH_STATE_DECODE; }
  bool has_ended() const {
    return state == LH_STATE_FINISHED || state == LH_STATE_FAILED;
  }
  int32_t n_tokens() const { return static_cast<int32_t>(tokens.size()); }
  // Returns the tokens of a thought or an answer that were drawn or forced so far.
  int32_t n_written() const { return task->has_paths() ? 0 : n_tokens() - n_prompt; }
  // Tokens of the answer.
  int32_t n_generated() const { return task->is_thought() ? 0 : n_written(); }
  // Returns the maximum number of tokens that may still be written, in thought and answer
  // together.
  int64_t n_remaining() const {
    return int64_t{task->n_before_answer(*this)} + max_tokens - n_generated();
  }
  // Tests whether the first token was generated.
  bool has_begun() const { return t_first_s > 0; }
  void note_first() {
    if (t_first_s == 0) t_first_s = seconds_since(submitted);
  }
  // Tests whether the prompt of a score is decoded, so that only paths remain.
  bool is_on_path(const Positions& positions) const {
    return task->has_paths() && positions.get(seq_id) >= n_prompt;
  }
  // Tokens still to decode.
  int32_t n_pending(const Positions& positions) const {
    return n_tokens() - positions.get(seq_id);
  }
  // Number of tokens that may be decoded now. The prompt of a score comes before all
  // paths.
  int32_t n_computable(const Positions& positions) const {
    const int32_t position = positions.get(seq_id);
    const bool is_prompt_first = task->has_paths() && position < n_prompt;
    return (is_prompt_first ? n_prompt : n_tokens()) - position;
  }

  // Tests whether the prompt is fully computed by a shared prefix, including its logits.
  bool has_prompt_logits(const Positions& positions) const {
    return logits && state == LH_STATE_PREFILL && n_pending(positions) == 0;
  }

  // Releases the sequence id and the cells of the client.
  void give_back(KvCache& kv);
  // Tests whether the client has ended and kept its cells.
  bool is_kept() const { return has_ended() && seq_id >= 0; }
  // Ends the client with the output generated so far. LH_FINISH_ERROR marks the client as
  // failed; so does an exception on the way, e.g. without memory for the output.
  void end(KvCache& kv, lh_finish reason, const char* why) noexcept;
  // Ends the client as failed with the exception that is being handled.
  void fail(KvCache& kv) noexcept;
  // Ends a client without cells.
  void finish_as(lh_finish reason, const char* why) noexcept;
  // Returns the number of bytes of the text that later tokens cannot change.
  size_t n_stable() const;
  // Discards the saved state, which is then computed again.
  void drop_saved();
};

}  // namespace lh
