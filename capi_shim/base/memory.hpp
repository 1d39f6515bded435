// Detection of memory shortage before libllama meets it.
#pragma once

#include <cstddef>

namespace lh {

// Memory that libllama may request in small blocks while it creates a context or computes
// a batch. libllama ends the process if such an allocation fails.
constexpr size_t kRoom = size_t{64} << 20U;

// Maximum address space of a thread's stack.
constexpr size_t kThreadRoom = size_t{9} << 20U;

// Throws Error (LH_INTERNAL) unless this process can allocate that many more bytes. (This
// detects a limit such as `ulimit -v`. Without a limit, the kernel usually promises more
// memory than it has.)
void require_memory(size_t bytes);

// While an object of this class exists, large blocks from malloc are returned to the
// system when they are freed. Otherwise glibc, after the first of them are freed,
// allocates larger and larger blocks from the heap of the calling thread. Only the first
// thread's heap returns such blocks to the system. Each other heap would keep tens of
// megabytes after many contexts were created and closed.
class LargeBlocksApart {
 public:
  LargeBlocksApart() noexcept;
  ~LargeBlocksApart();
  LargeBlocksApart(const LargeBlocksApart&) = delete;
  LargeBlocksApart& operator=(const LargeBlocksApart&) = delete;
};

// Converts failed assertions of libllama to exceptions where possible: on a thread inside
// `guard` that computes alone. On other threads a failed assertion still ends the
// process.
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
