// The KV cache of one context: how many cells each sequence has, and how they are copied,
// moved, saved and brought back.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "llama.h"
#include "sequences.hpp"

namespace lh {

class SharedCells;

class KvCache {
 public:
  struct Layout {
    int32_t n_seq_max;
    bool unified;        // one pool of cells; else each sequence has a stream of its own
    bool movable;        // sequences may get other ids
    bool copies_states;  // between streams, where that is faster than whole streams
  };

  // The context must outlive it.
  KvCache(llama_context* ctx, const Layout& layout);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  const Positions& positions() const { return positions_; }
  int32_t n_seq_max() const { return layout_.n_seq_max; }
  int32_t n_seq_used() const { return pool_.n_used(); }
  int32_t n_cells_used() const { return n_cells_used_; }
  // Cells that are this sequence's alone.
  int32_t n_own_cells(int32_t seq_id) const;
  // Whether copies between streams have yet to be made: libllama makes them with the next
  // decode.
  bool has_pending_copies() const { return has_pending_copies_; }

  // A sequence id without cells: the lowest that is free, for prefixes the highest.
  // Throws Error (LH_NO_SPACE) if all are in use.
  int32_t acquire(bool is_prefix);
  // Gives an id and its cells back.
  void release(int32_t seq_id);
  // Gives the cells back; the id stays in use.
  void clear(int32_t seq_id);
  // Gives all cells back, whatever state they are in.
  void lose_all();

  // Counts tokens that were decoded.
  void advance(int32_t seq_id, int32_t n_tokens);
  // Removes cells from a position on. False: the memory cannot be cut there (recurrent).
  bool cut(int32_t seq_id, int32_t position);
  // Removes what a failed decode, or wrong draft tokens, left. False: as for cut.
  bool rewind(int32_t seq_id) { return positions_.rewind(seq_id); }
  // Gives the cells from a position on back. False: as for cut.
  bool roll_back(int32_t seq_id, int32_t position);
  // Throws Error unless the cells end where they should.
  void verify(int32_t seq_id) const { positions_.verify(seq_id); }

  // Gives sequence `to`, which has no cells, those of `from`. Returns how many.
  int32_t fork(int32_t from, int32_t to);
  // From now on the cells belong to all that are forked from this sequence.
  void share(int32_t seq_id);
  bool can_move() const { return layout_.movable; }
  // Moves a sequence to a lower id that is free. Returns the new id; or -1: there is
  // none, or no memory for the copy, and all is as it was.
  int32_t move_down(int32_t seq_id);

  // Copies a sequence's cells into `state`. False: it has none, there is no memory, or
  // copies are pending (cells may be missing then).
  bool save(int32_t seq_id, std::vector<uint8_t>& state);
  // Brings n_cells saved ones back, to a sequence without cells. False: no room.
  bool restore(const std::vector<uint8_t>& state, int32_t n_cells, int32_t seq_id);

  // To be called before each decode, and after each that succeeded.
  void before_decode() { state_of_ = -1; }
  void after_decode() { has_pending_copies_ = false; }

 private:
  struct Cells {
    int32_t n_own = 0;
    std::shared_ptr<SharedCells> shared;
  };

  Cells& cells(int32_t seq_id) { return cells_.at(static_cast<size_t>(seq_id)); }
  void count(int32_t seq_id, int32_t n_cells);
  void uncount(int32_t seq_id);
  void copy(int32_t from, int32_t to);
  bool copy_as_state(int32_t from, int32_t to);
  bool write_state(const std::vector<uint8_t>& state, int32_t seq_id);

  llama_context* ctx_;
  llama_memory_t memory_;
  const Layout layout_;
  Positions positions_;
  SequencePool pool_;
  int32_t n_cells_used_ = 0;
  bool has_pending_copies_ = false;
  std::vector<uint8_t> state_;  // the latest that was copied
  int32_t state_of_ = -1;       // whose it is, until the next decode
  std::vector<Cells> cells_;    // by sequence; after n_cells_used_, which they point to
};

}  // namespace lh
