// What goes into a batch, and in which order. Needs no context: clients and positions in,
// a llama_batch out.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "batch.hpp"
#include "client.hpp"
#include "sequences.hpp"

namespace lh {

// One client's share of a batch.
struct BatchPart {
  Client* client;
  int32_t n_tokens;
  std::vector<int32_t> draft{};  // tokens that may come next
  int32_t n_padding = 0;         // behind all that
  int32_t i_logits = -1;         // of its first row in the batch, -1: none is asked for
  int32_t n_rows = 0;            // those that are asked for, but for draft tokens'
  bool is_path = false;          // of a score
  float* logits = nullptr;       // the row to sample next, if there is one
};

// Tokens without a meaning, from a position of a sequence on: to be removed after the
// decode.
struct Padding {
  int32_t seq_id;
  int32_t position;
};

struct BatchLimits {
  int32_t capacity;    // tokens of a batch
  int32_t n_prompt;    // of those, for prompts
  int32_t n_ubatch;    // tokens that libllama computes at a time
  int32_t n_ctx_seq;   // cells of a sequence
  int32_t n_outputs;   // rows of logits
  int32_t n_paddable;  // positions up to which a sequence may be padded; 0: never
  bool has_streams;    // each sequence has cells of its own: libllama computes streams
                       // together only as far as the shortest part goes
  bool has_amx;
  bool is_uniform;   // the deterministic mode
  bool mixes_paths;  // paths of scores may be computed with anything else: in a pool,
                     // where no window of attention moves on
};

class BatchBuilder {
 public:
  virtual ~BatchBuilder() = default;
  BatchBuilder(const BatchBuilder&) = delete;
  BatchBuilder& operator=(const BatchBuilder&) = delete;

  // Fills the batch for active clients, which are in the order of their arrival.
  // draft_rows: how many rows there may be for the sake of draft tokens, 0 for none. New
  // clients may get other sequence ids. False: there is nothing to decode.
  bool build(const std::vector<Client*>& clients, int32_t draft_rows);

  const llama_batch& batch() const { return batch_.get(); }
  // In the order of sequence ids.
  std::vector<BatchPart>& parts() { return parts_; }
  const std::vector<Padding>& padding() const { return padding_; }

 protected:
  BatchBuilder(const Positions& positions, const BatchLimits& limits)
      : positions_(positions), limits_(limits), batch_(limits.capacity) {}

  virtual void choose_parts(const std::vector<Client*>& clients, int32_t draft_rows) = 0;
  virtual void add_parts() = 0;

  // Of a score first those of its prompt.
  int32_t n_pending(const Client& client) const;
  bool is_on_path(const Client& client) const { return client.is_on_path(positions_); }
  void add_part(BatchPart& part);
  void add_padding(int32_t seq_id, int32_t first, int32_t n, bool logits);

  const Positions& positions_;
  const BatchLimits limits_;
  Batch batch_;
  std::vector<BatchPart> parts_;
  std::vector<Padding> padding_;

 private:
  bool is_time_for_paths(const std::vector<Client*>& clients) const;
  void choose_paths(const std::vector<Client*>& clients);

  bool was_path_ = false;  // the batch before
};

}  // namespace lh
