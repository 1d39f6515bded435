#include "kv_cache.hpp"

#include <algorithm>
#include <string>

#include "guard.hpp"
#include "memory.hpp"

namespace lh {

// Cells that several sequences share. When the last of these sequences has ended, the
// cells are removed from the count.
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

KvCache::KvCache(llama_context* ctx, const Layout& layout)
    : ctx_(ctx),
      memory_(llama_get_memory(ctx)),
      layout_(layout),
      positions_(layout.n_seq_max),
      cells_(static_cast<size_t>(layout.n_seq_max)) {}

KvCache::~KvCache() = default;

int32_t KvCache::n_own_cells(int32_t seq_id) const {
  return cells_.at(static_cast<size_t>(seq_id)).n_own;
}

// ---- ids ----------------------------------------------------------------------------

int32_t KvCache::n_seq_used() const {
  return static_cast<int32_t>(std::count_if(
      cells_.begin(), cells_.end(), [](const Cells& cells) { return cells.is_used; }));
}

// Returns n_seq_max if no id is free.
int32_t KvCache::first_free() const {
  int32_t seq_id = 0;
  while (seq_id < n_seq_max() && cells_[static_cast<size_t>(seq_id)].is_used) ++seq_id;
  return seq_id;
}

int32_t KvCache::acquire(bool is_prefix) {
  int32_t seq_id = first_free();
  if (seq_id == n_seq_max()) {
    throw Error(LH_NO_SPACE,
                "all " + std::to_string(seq_id) + " sequence ids are in use");
  }
  if (is_prefix) {
    seq_id = n_seq_max() - 1;
    while (cells(seq_id).is_used) --seq_id;
  }
  clear(seq_id);
  cells(seq_id).is_used = true;
  return seq_id;
}

void KvCache::release(int32_t seq_id) {
  clear(seq_id);
  cells(seq_id).is_used = false;
}

void KvCache::clear(int32_t seq_id) {
  if (state_of_ == seq_id) state_of_ = -1;
  llama_memory_seq_rm(memory_, seq_id, -1, -1);
  positions_.forget(seq_id);
  Cells& mine = cells(seq_id);
  n_cells_used_ -= mine.n_own;
  mine.n_own = 0;
  mine.shared.reset();
}

void KvCache::lose_all() {
  llama_memory_clear(memory_, false);
  for (int32_t seq_id = 0; seq_id < layout_.n_seq_max; ++seq_id) clear(seq_id);
}

// ---- counts -------------------------------------------------------------------------

void KvCache::count(int32_t seq_id, int32_t n_cells) {
  cells(seq_id).n_own += n_cells;
  n_cells_used_ += n_cells;
}

void KvCache::advance(int32_t seq_id, int32_t n_tokens) {
  positions_.set(seq_id, positions_.get(seq_id) + n_tokens);
  count(seq_id, n_tokens);
}

void KvCache::verify(int32_t seq_id) const {
  const int32_t next = positions_.get(seq_id);
  const int32_t cache_end = llama_memory_seq_pos_max(memory_, seq_id) + 1;
  if (cache_end != next) {
    throw Error(LH_INTERNAL, "sequence " + std::to_string(seq_id) +
                                 " is recorded at position " + std::to_string(next) +
                                 ", but the KV cache ends at " +
                                 std::to_string(cache_end));
  }
}

bool KvCache::cut(int32_t seq_id, int32_t position) {
  if (state_of_ == seq_id) state_of_ = -1;
  if (!llama_memory_seq_rm(memory_, seq_id, position, -1)) return false;
  const int32_t n_swa = llama_model_n_swa(llama_get_model(ctx_));
  if (n_swa == 0 || position == 0) return true;
  const int32_t first = llama_memory_seq_pos_min(memory_, seq_id);
  return first >= 0 && first <= std::max(0, position + 1 - n_swa);
}

bool KvCache::roll_back(int32_t seq_id, int32_t position) {
  if (!cut(seq_id, position)) return false;
  const int32_t n_removed = positions_.get(seq_id) - position;
  count(seq_id, -std::min(n_removed, cells(seq_id).n_own));  // others have shared cells
  positions_.set(seq_id, position);
  return true;
}

void KvCache::share(int32_t seq_id) {
  if (!layout_.unified) return;  // separate streams share no cells
  Cells& mine = cells(seq_id);
  mine.shared = std::make_shared<SharedCells>(&n_cells_used_, mine.n_own, mine.shared);
  mine.n_own = 0;
}

// ---- copies -------------------------------------------------------------------------

int32_t KvCache::fork(int32_t from, int32_t to) {
  const int32_t n = positions_.get(from);
  if (n == 0) return 0;  // the cells were lost
  copy(from, to);
  positions_.set(to, n);
  if (layout_.unified) {
    cells(to).shared = cells(from).shared;
  } else {
    count(to, n);
  }
  return n;
}

int32_t KvCache::move_down(int32_t seq_id) {
  if (first_free() > seq_id) return -1;
  const int32_t gap = acquire(false);
  bool is_copied = !layout_.copies_states;
  try {
    if (is_copied) {
      copy_stream(seq_id, gap);
    } else {
      is_copied = copy_as_state(seq_id, gap);
    }
  } catch (...) {
    is_copied = false;
  }
  if (!is_copied) {
    release(gap);
    return -1;
  }
  positions_.set(gap, positions_.get(seq_id));
  std::swap(cells(gap), cells(seq_id));
  release(seq_id);
  return gap;
}

// Copies the whole sequence, because libllama asserts on a partial copy between streams.
// Such a copy happens at the next decode and covers the whole capacity of the stream.
// libllama keeps the sources and the destinations of such copies in two lists. If memory
// ran out after only one list was extended, the next decode would crash. Memory is
// therefore checked first.
void KvCache::copy_stream(int32_t from, int32_t to) {
  require_memory(kRoom);
  llama_memory_seq_cp(memory_, from, to, -1, -1);
  has_pending_copies_ = !layout_.unified;
  state_of_ = -1;
}

void KvCache::copy(int32_t from, int32_t to) {
  const int64_t n_cells = llama_n_ctx_seq(ctx_);
  const bool is_faster = 3 * int64_t{positions_.get(from)} <= 2 * n_cells;
  if (!is_faster || !copy_as_state(from, to)) copy_stream(from, to);
}

// Saves the state of the cells and writes it to the other sequence. This copy takes
// effect immediately, not at the next decode, and is faster than copy_stream() if the
// cells fill only a part of their stream. The state is read once for all copies until the
// next decode, see docs/decisions/0018. Returns false if nothing was copied.
bool KvCache::copy_as_state(int32_t from, int32_t to) {
  if (!layout_.copies_states) return false;
  if (state_of_ != from) {
    state_of_ = -1;
    if (!save(from, state_)) return false;
    state_of_ = from;
  }
  return write_state(state_, to);
}

bool KvCache::save(int32_t seq_id, std::vector<uint8_t>& state) {
  if (has_pending_copies_) return false;
  try {
    state.resize(llama_state_seq_get_size(ctx_, seq_id));
    state.resize(llama_state_seq_get_data(ctx_, state.data(), state.size(), seq_id));
  } catch (...) {
    state = {};
  }
  return !state.empty();
}

bool KvCache::restore(const std::vector<uint8_t>& state, int32_t n_cells,
                      int32_t seq_id) {
  if (!write_state(state, seq_id)) return false;
  positions_.set(seq_id, n_cells);
  count(seq_id, n_cells);
  return true;
}

bool KvCache::write_state(const std::vector<uint8_t>& state, int32_t seq_id) {
  try {
    return llama_state_seq_set_data(ctx_, state.data(), state.size(), seq_id) > 0;
  } catch (...) {
    return false;
  }
}

}  // namespace lh
