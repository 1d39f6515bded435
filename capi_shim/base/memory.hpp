// Shortage of memory, found before libllama finds it.
#pragma once

#include <cstddef>

namespace lh {

// What libllama may want while it makes a context or computes a batch, and does not
// expect to be refused: where it asks for a little and gets nothing, it ends the process.
constexpr size_t kRoom = size_t{64} << 20U;

// What the stack of a thread takes of the address space, at most.
constexpr size_t kThreadRoom = size_t{9} << 20U;

// Throws LH_INTERNAL unless this process may take so many bytes more. (A limit such as
// `ulimit -v` says no; without one a kernel mostly promises more than it has.)
void require_memory(size_t bytes);

// While one lives, what malloc gives out in large blocks goes back to the system when it
// is freed. glibc takes larger and larger ones from the heap of the thread that asks,
// once some have been freed, and the heap of a thread that is not the first keeps them:
// after many contexts were made and closed, tens of megabytes for each such heap.
class LargeBlocksApart {
 public:
  LargeBlocksApart() noexcept;
  ~LargeBlocksApart();
  LargeBlocksApart(const LargeBlocksApart&) = delete;
  LargeBlocksApart& operator=(const LargeBlocksApart&) = delete;
};

// From now on what libllama asserts is thrown, where it can be: on a thread that is
// inside of `guard` and computes with no others. Elsewhere the process ends, as it always
// has.
void throw_assertions();

// While one lives, its thread is inside of `guard`.
class Guarded {
 public:
  Guarded() noexcept;
  ~Guarded();
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

 private:
  void* outer_ = nullptr;
};

}  // namespace lh
