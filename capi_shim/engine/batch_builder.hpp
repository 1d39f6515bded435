// Contents and order of a batch. Builders fill a llama_batch from clients and positions,
// and need no context.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client.hpp"
#include "llama.h"
#include "llamaherd.h"
#include "positions.hpp"

namespace lh {

// ggml's matrix kernels process four rows at a time. The rows that remain are processed
// by another kernel, with different rounding (ggml-cpu/repack.cpp, llamafile/sgemm.cpp).
constexpr int32_t kUniformRows = LH_UNIFORM_ROWS;

// RAII wrapper of one llama_batch that is allocated once and reused for every decode.
class Batch {
 public:
  explicit Batch(int32_t capacity);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void clear() { batch_.n_tokens = 0; }
  // Adds one token and returns its index, which is also the index of its row of logits.
  int32_t add(int32_t token, int32_t position, int32_t seq_id, bool logits);
  const llama_batch& get() const { return batch_; }

 private:
  llama_batch batch_;
  int32_t capacity_;
};

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

// Batches that combine answers and prompts.
class MixedBatch final : public BatchBuilder {
 public:
  MixedBatch(const Positions& positions, const BatchLimits& limits)
      : BatchBuilder(positions, limits) {}

 private:
  void choose_parts(const std::vector<Client*>& clients, int32_t draft_rows) override;
  void add_parts() override;
  int32_t answer_limit_of(const std::vector<Client*>& clients) const;
  int32_t add_paths(const std::vector<Client*>& clients);
  void sort_new(bool prefixes);
  void pad_parts();
  int32_t n_draft(int32_t draft_rows) const;
  void choose_drafts(int32_t draft_rows);
};

// Batches whose computations have the same shape for every set of clients. The
// deterministic mode uses them, see docs/decisions/0012.
class UniformBatch final : public BatchBuilder {
 public:
  UniformBatch(const Positions& positions, const BatchLimits& limits)
      : BatchBuilder(positions, limits) {}

 private:
  void choose_parts(const std::vector<Client*>& clients, int32_t draft_rows) override;
  void choose(const std::vector<Client*>& clients, int32_t room);
  void add_parts() override;
  void add_prompts();
  void add_answers();

  bool is_prompts_ = false;  // prompts (true) or answers (false)
  int32_t n_prompts_ = 0;    // batches of prompts since the last batch of answers
};

}  // namespace lh
