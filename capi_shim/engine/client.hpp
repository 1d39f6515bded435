// A client slot: one request in flight, from its prompt to its last token.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "clock.hpp"
#include "kv_cache.hpp"
#include "llamaherd.h"
#include "logprobs.hpp"
#include "sampler.hpp"
#include "score.hpp"
#include "sequences.hpp"
#include "text.hpp"

namespace lh {

struct Client {
  int64_t id = 0;
  int64_t order = 0;  // when it was submitted, among all
  int32_t priority = 0;
  bool may_draft = false;
  bool is_watched = false;  // its first token has yet to be reported
  bool is_whole = false;    // a prefix that is somebody's whole prompt
  lh_state state = LH_STATE_PREFILL;
  lh_finish finish = LH_FINISH_NONE;
  int32_t seq_id = -1;

  std::vector<int32_t> tokens;  // the prompt, then what was generated
  int32_t n_prompt = 0;
  int32_t n_reused = 0;
  int32_t max_tokens = 0;  // 0: a prefix

  // After the prompt's last token. Of a whole prefix, and of those forked from it until
  // their first token.
  std::shared_ptr<const std::vector<float>> logits;
  // Of a score `tokens` are the prompt, then the path that is decoded behind it.
  std::unique_ptr<Score> score;
  std::unique_ptr<Sampler> sampler;    // none for a prefix or a score
  std::unique_ptr<Logprobs> logprobs;  // of its answer, if they are asked for
  uint32_t seed = 0;
  TextBuffer text;
  bool steps_forced = false;   // tokens that must come are computed one a step
  std::deque<int32_t> forced;  // those to come, then
  bool is_complete = false;    // see lh_client_info
  std::string message;         // what went wrong

  lh_stats taken{};                   // what it took, see Statistics
  std::shared_ptr<lh_stats> of_call;  // to which the same is added
  Clock::time_point submitted;
  double t_first_s = 0;  // from then to its first token, 0: it has none

  bool verified = false;       // its position was checked since it moved
  int32_t lost_at = -1;        // the furthest position of a lost state
  std::vector<uint8_t> saved;  // its KV cells while paused
  int32_t n_saved = 0;         // how many
  int32_t n_before = 0;        // tokens that were decoded before it was paused

  bool is_prefix() const { return max_tokens == 0; }
  bool needs_logits() const { return !is_prefix() || is_whole; }
  bool is_active() const { return state == LH_STATE_PREFILL || state == LH_STATE_DECODE; }
  bool has_ended() const {
    return state == LH_STATE_FINISHED || state == LH_STATE_FAILED;
  }
  int32_t n_tokens() const { return static_cast<int32_t>(tokens.size()); }
  int32_t n_generated() const { return score ? 0 : n_tokens() - n_prompt; }
  // Whether a score's prompt is decoded: what is left is a path.
  bool is_on_path(const Positions& positions) const {
    return score && positions.get(seq_id) >= n_prompt;
  }
  // Whether the logits of the token at a position are asked for.
  bool wants_row(int32_t position) const;
  // Tokens that have yet to be decoded.
  int32_t n_pending(const Positions& positions) const {
    return n_tokens() - positions.get(seq_id);
  }

  // Whether its prompt was computed for others as well, down to its logits.
  bool has_prompt_logits(const Positions& positions) const {
    return logits && state == LH_STATE_PREFILL && n_pending(positions) == 0;
  }

  // Gives its sequence and cells back.
  void give_back(KvCache& kv);
  // The answer is what there is; LH_FINISH_ERROR: it failed.
  void end(KvCache& kv, lh_finish reason, const char* why);
  // The same for one that has no cells.
  void finish_as(lh_finish reason, const char* why);
  // What will not change any more of the text, in bytes.
  size_t n_stable() const;
  // What was saved is of no use any more: it is computed again.
  void drop_saved();

 private:
  void judge();
};

}  // namespace lh
