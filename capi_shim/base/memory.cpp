#include "memory.hpp"

#include <atomic>
#include <cstdio>
#include <exception>
#include <string>

#include "ggml.h"
#include "guard.hpp"
#include "threads.hpp"

#if defined(__GLIBC__)
#include <malloc.h>
#endif
#if defined(__linux__)
#include <pthread.h>
#include <sys/mman.h>
#endif

namespace lh {

#if defined(__linux__)

namespace {

// Not thread_local, for the reason stated in threads.cpp.
struct Key {
  pthread_key_t key{};
  bool is_made = pthread_key_create(&key, nullptr) == 0;
};

const Key& guarded_key() {
  static const Key key;
  return key;
}

// Called by ggml_abort, which ends the process if this function returns. The exception
// passes through frames of C functions. This works because compilers emit unwind tables
// for C functions, at least for debuggers.
void on_assertion(const char* message) {
  const Key& key = guarded_key();
  if (key.is_made && pthread_getspecific(key.key) != nullptr && team_place() == nullptr) {
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
  const Key& key = guarded_key();
  if (!key.is_made) return;
  outer_ = pthread_getspecific(key.key);
  pthread_setspecific(key.key, this);
}

Guarded::~Guarded() {
  if (guarded_key().is_made) pthread_setspecific(guarded_key().key, outer_);
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
