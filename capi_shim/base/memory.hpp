// Detection of memory shortage before libllama meets it.
#pragma once

#include <cstddef>

namespace lh {

// Memory that libllama may request while it creates a context or computes a batch.
// libllama ends the process if such a small allocation fails.
constexpr size_t kRoom = size_t{64} << 20U;

// Maximum address space of a thread's stack.
constexpr size_t kThreadRoom = size_t{9} << 20U;

// Throws LH_INTERNAL unless this process can allocate that many more bytes. (A limit such
// as `ulimit -v` makes this fail; without a limit the kernel usually promises more memory
// than it has.)
void require_memory(size_t bytes);

// While an object exists, large blocks from malloc return to the system when they are
// freed. Otherwise glibc takes ever larger blocks from the heap of the calling thread
// after some were freed. The heap of any thread but the first keeps them: tens of
// megabytes per heap after many contexts were created and closed.
class LargeBlocksApart {
 public:
  LargeBlocksApart() noexcept;
  ~LargeBlocksApart();
  LargeBlocksApart(const LargeBlocksApart&) = delete;
  LargeBlocksApart& operator=(const LargeBlocksApart&) = delete;
};

// Turns libllama's assertions into exceptions where possible: on a thread inside `guard`
// that computes alone. Elsewhere the process still ends.
void throw_assertions();

// While an object exists, its thread is treated as inside `guard`.
class Guarded {
 public:
  Guarded() noexcept;
  ~Guarded();
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

 private:
  [[maybe_unused]] void* outer_ = nullptr;
};

}  // namespace lh
