// A client slot: one request in flight, from its prompt to its last token.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "llamaherd.h"
#include "sampler.hpp"
#include "text.hpp"

namespace lh {

// Counts KV cells that several sequences share; gives them back when the last one ends.
class SharedCells {
 public:
  SharedCells(int32_t* total, int32_t n_cells, std::shared_ptr<SharedCells> parent)
      : total_(total), n_cells_(n_cells), parent_(std::move(parent)) {}
  ~SharedCells() { *total_ -= n_cells_; }
  SharedCells(const SharedCells&) = delete;
  SharedCells& operator=(const SharedCells&) = delete;

 private:
  int32_t* total_;
  int32_t n_cells_;
  std::shared_ptr<SharedCells> parent_;
};

struct Client {
  int64_t id = 0;
  int64_t order = 0;  // when it was submitted, among all
  lh_state state = LH_STATE_PREFILL;
  lh_finish finish = LH_FINISH_NONE;
  int32_t seq_id = -1;

  std::vector<int32_t> tokens;  // the prompt, then what was generated
  int32_t n_prompt = 0;
  int32_t n_reused = 0;
  int32_t max_tokens = 0;  // 0: a prefix

  std::unique_ptr<Sampler> sampler;  // none for a prefix
  uint32_t seed = 0;
  TextBuffer text;
  bool is_complete = false;  // see lh_client_info
  std::string message;       // what went wrong

  int32_t n_own_cells = 0;                    // counted in the engine's total
  std::shared_ptr<SharedCells> shared_cells;  // of the prefix it was forked from
  bool verified = false;                      // its position was checked since it moved
  int32_t lost_at = -1;                       // the furthest position of a lost state
  std::vector<uint8_t> saved;                 // its KV cells while paused
  int32_t n_saved = 0;                        // the position they end at

  bool is_prefix() const { return max_tokens == 0; }
  bool is_active() const { return state == LH_STATE_PREFILL || state == LH_STATE_DECODE; }
  bool has_ended() const {
    return state == LH_STATE_FINISHED || state == LH_STATE_FAILED;
  }
  int32_t n_generated() const { return static_cast<int32_t>(tokens.size()) - n_prompt; }
};

}  // namespace lh
