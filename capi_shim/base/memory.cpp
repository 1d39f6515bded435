#include "memory.hpp"

#include <atomic>
#include <cstdio>
#include <exception>
#include <string>

#include "ggml.h"
#include "guard.hpp"
#include "thread_system.hpp"
#include "threads.hpp"

#if defined(__GLIBC__)
#include <malloc.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace lh {

#if defined(__linux__)

namespace {

const ThreadPointer& guarded_thread() {
  static const ThreadPointer pointer;
  return pointer;
}

// Called by ggml_abort, which ends the process if this function returns. The exception
// passes through frames of C functions. This works because compilers emit unwind tables
// for C functions, at least for debuggers.
void on_assertion(const char* message) {
  const ThreadPointer& guarded = guarded_thread();
  if (guarded.is_made() && guarded.get() != nullptr && team_place() == nullptr) {
    throw Error(LH_INTERNAL, std::string("llama.cpp gave up: ") + message);
  }
  std::fprintf(stderr, "%s\n", message);
}

}  // namespace

// Requests the address of the last test, which is usually free: emulators (qemu-user)
// keep tables of all addresses that were ever mapped, and ran out of memory after 50,000
// tests.
void require_memory(size_t bytes) {
  static std::atomic<void*> last{nullptr};
  void* room =
      mmap(last, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    throw Error(LH_INTERNAL, "out of memory: less than " + std::to_string(bytes >> 20U) +
                                 " MiB are left for this process");
  }
  last = room;
  munmap(room, bytes);
}

void throw_assertions() { ggml_set_abort_callback(on_assertion); }

Guarded::Guarded() noexcept {
  // Makes libstdc++ allocate this thread's exception state while memory is available.
  static_cast<void>(std::uncaught_exceptions());
  if (!guarded_thread().is_made()) return;
  outer_ = guarded_thread().get();
  guarded_thread().set(this);
}

Guarded::~Guarded() {
  if (guarded_thread().is_made()) guarded_thread().set(outer_);
}

#else

void require_memory(size_t) {}
void throw_assertions() {}
Guarded::Guarded() noexcept = default;
Guarded::~Guarded() = default;

#endif

#if defined(__GLIBC__)

namespace {

// Maximum values that glibc accepts, see mallopt(3).
constexpr int kLargestInHeap = 32 * 1024 * 1024;
constexpr int kSmallestApart = 1024 * 1024;

}  // namespace

LargeBlocksApart::LargeBlocksApart() noexcept {
  mallopt(M_MMAP_THRESHOLD, kSmallestApart);
}
LargeBlocksApart::~LargeBlocksApart() {
  mallopt(M_MMAP_THRESHOLD, kLargestInHeap);
  mallopt(M_TRIM_THRESHOLD, 2 * kLargestInHeap);
}

#else

LargeBlocksApart::LargeBlocksApart() noexcept = default;
LargeBlocksApart::~LargeBlocksApart() = default;

#endif

}  // namespace lh
