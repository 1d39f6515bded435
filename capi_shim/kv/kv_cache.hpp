// KV cache of one context: counts the cells of each sequence, and copies, moves, saves
// and restores them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "llama.h"
#include "positions.hpp"

namespace lh {

class SharedCells;

class KvCache {
 public:
  struct Layout {
    int32_t n_seq_max;
    bool unified;  // true: one pool of cells; false: each sequence has its own stream
    bool movable;  // whether sequences may change their ids
    // whether to copy between streams as saved states if this is faster than copying
    // whole streams
    bool copies_states;
  };

  // The context must outlive the object.
  KvCache(llama_context* ctx, const Layout& layout);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  const Positions& positions() const { return positions_; }
  int32_t n_seq_max() const { return layout_.n_seq_max; }
  int32_t n_seq_used() const;
  int32_t n_cells_used() const { return n_cells_used_; }
  // Returns the number of cells that belong to this sequence alone.
  int32_t n_own_cells(int32_t seq_id) const;
  // Tests whether copies between streams are pending. libllama makes them at the next
  // decode.
  bool has_pending_copies() const { return has_pending_copies_; }

  // Returns a sequence id without cells. libllama computes streams with consecutive ids
  // together; a gap in the ids splits the batch. Clients therefore get the lowest free
  // id. Prefixes, which are idle most of the time, get the highest free id. Throws Error
  // (LH_NO_SPACE) if all ids are in use.
  int32_t acquire(bool is_prefix);
  // Frees a sequence id and its cells. A free id stays free.
  void release(int32_t seq_id);
  // Frees the cells of a sequence, whatever the records say; its id stays in use.
  void clear(int32_t seq_id);
  // Frees all cells, even in an inconsistent state.
  void lose_all();

  // Counts decoded tokens.
  void advance(int32_t seq_id, int32_t n_tokens);
  // Removes all cells at and after a position. Returns false if the memory cannot be
  // truncated there (recurrent), or has lost cells in the attention window of this
  // position.
  bool cut(int32_t seq_id, int32_t position);
  // Removes the cells of a failed decode or of rejected draft tokens. Returns false in
  // the same case as cut().
  bool rewind(int32_t seq_id) { return cut(seq_id, positions_.get(seq_id)); }
  // Frees all cells at and after a position. Returns false in the same case as cut().
  bool roll_back(int32_t seq_id, int32_t position);
  // Throws Error with both positions unless the cells end at the recorded position.
  void verify(int32_t seq_id) const;

  // Copies the cells of `from` to sequence `to`, which must have no cells. Returns the
  // number of cells.
  int32_t fork(int32_t from, int32_t to);
  // Shares the cells of a sequence with all sequences that are later forked from it.
  void share(int32_t seq_id);
  bool can_move() const { return layout_.movable; }
  // Moves a sequence to a lower free id and returns the new id. Returns -1, without any
  // change, if no lower id is free or there is no memory for the copy.
  int32_t move_down(int32_t seq_id);

  // Copies a sequence's cells into `state`. Returns false if the sequence has no cells,
  // if there is too little memory, or if copies are pending, because cells could then be
  // missing.
  bool save(int32_t seq_id, std::vector<uint8_t>& state);
  // Restores n_cells saved cells in a sequence without cells. Returns false if too few
  // cells are free.
  bool restore(const std::vector<uint8_t>& state, int32_t n_cells, int32_t seq_id);

  // Call before_decode() before every decode, and after_decode() after every successful
  // decode.
  void before_decode() { state_of_ = -1; }
  void after_decode() { has_pending_copies_ = false; }

 private:
  struct Cells {
    bool is_used = false;  // whether the sequence id is in use
    int32_t n_own = 0;
    std::shared_ptr<SharedCells> shared;
  };

  Cells& cells(int32_t seq_id) { return cells_.at(static_cast<size_t>(seq_id)); }
  void count(int32_t seq_id, int32_t n_cells);
  int32_t first_free() const;
  void copy(int32_t from, int32_t to);
  void copy_stream(int32_t from, int32_t to);
  bool copy_as_state(int32_t from, int32_t to);
  bool write_state(const std::vector<uint8_t>& state, int32_t seq_id);

  llama_context* ctx_;
  llama_memory_t memory_;
  const Layout layout_;
  Positions positions_;
  int32_t n_cells_used_ = 0;
  bool has_pending_copies_ = false;
  std::vector<uint8_t> state_;  // most recently copied state
  int32_t state_of_ = -1;       // sequence to which state_ belongs, until the next decode
  // per sequence; declared after n_cells_used_, to which the elements point
  std::vector<Cells> cells_;
};

}  // namespace lh
