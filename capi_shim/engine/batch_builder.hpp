// Contents and order of a batch. Fills a llama_batch from clients and positions; needs no
// context.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "batch.hpp"
#include "client.hpp"
#include "positions.hpp"

namespace lh {

// Part of a batch that belongs to one client.
struct BatchPart {
  Client* client;
  int32_t n_tokens;
  std::vector<int32_t> draft{};  // candidate tokens that may follow
  int32_t n_padding = 0;         // padding tokens at the end
  // index of the first logits row in the batch; -1: none requested
  int32_t i_logits = -1;
  int32_t n_rows = 0;       // number of requested rows, without the rows of draft tokens
  bool is_path = false;     // the tokens belong to a path of a score
  float* logits = nullptr;  // next row to be sampled, or null
};

// Padding tokens at the end of a sequence, which start at a position and are removed
// after the decode.
struct Padding {
  int32_t seq_id;
  int32_t position;
};

struct BatchLimits {
  int32_t capacity;   // maximum tokens of a batch
  int32_t n_prompt;   // maximum prompt tokens of a batch
  int32_t n_ubatch;   // tokens that libllama computes at a time
  int32_t n_ctx_seq;  // cells of a sequence
  int32_t n_outputs;  // maximum rows of logits
  // maximum position up to which a sequence may be padded; 0: no padding
  int32_t n_paddable;
  // each sequence has its own stream of cells; libllama computes streams together only up
  // to the length of the shortest part
  bool has_streams;
  bool has_amx;
  bool is_uniform;  // deterministic mode
  // paths of scores may share a batch with other clients: only in a pool without a
  // sliding window
  bool mixes_paths;
};

class BatchBuilder {
 public:
  virtual ~BatchBuilder() = default;
  BatchBuilder(const BatchBuilder&) = delete;
  BatchBuilder& operator=(const BatchBuilder&) = delete;

  // Fills the batch for active clients, which are given in order of submission.
  // draft_rows: maximum number of rows for draft tokens; 0 for no draft tokens. May
  // assign new sequence ids to clients without cells. Returns false if there is nothing
  // to decode.
  bool build(const std::vector<Client*>& clients, int32_t draft_rows);

  const llama_batch& batch() const { return batch_.get(); }
  // Parts in order of sequence ids.
  std::vector<BatchPart>& parts() { return parts_; }
  const std::vector<Padding>& padding() const { return padding_; }

 protected:
  BatchBuilder(const Positions& positions, const BatchLimits& limits)
      : positions_(positions), limits_(limits), batch_(limits.capacity) {}

  virtual void choose_parts(const std::vector<Client*>& clients, int32_t draft_rows) = 0;
  virtual void add_parts() = 0;

  int32_t n_pending(const Client& client) const {
    return client.n_computable(positions_);
  }
  bool is_on_path(const Client& client) const { return client.is_on_path(positions_); }
  bool is_prompt(const Client& client) const {
    return client.state == LH_STATE_PREFILL && n_pending(client) > 0 &&
           !is_on_path(client);
  }
  bool let_short_prompts_pass(std::vector<Client*>& clients) const;
  void add_part(BatchPart& part);
  void add_padding(int32_t seq_id, int32_t first, int32_t n, bool logits);

  const Positions& positions_;
  const BatchLimits limits_;
  Batch batch_;
  std::vector<BatchPart> parts_;
  std::vector<Padding> padding_;
  // whether the previous batch of prompts had only a part of a prompt, and no prompt
  // passed this prompt
  bool was_cut_ = false;

 private:
  bool is_time_for_paths(const std::vector<Client*>& clients);
  void choose_paths(const std::vector<Client*>& clients);

  bool was_path_ = false;  // whether the previous batch had paths
  int32_t n_waited_ = 0;   // batches without paths since a path could be computed
};

}  // namespace lh
