#include "large_stack.hpp"

#include <exception>
#include <string>

#include "guard.hpp"
#include "memory.hpp"
#include "thread_system.hpp"

#if defined(_WIN32)
#include <process.h>
#else
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace lh {
namespace {

struct Work {
  const std::function<void()>& run;
  std::exception_ptr error;

  void operator()() noexcept {
    const Guarded guarded;
    try {
      run();
    } catch (...) {
      error = std::current_exception();
    }
  }
};

[[noreturn]] void fail(size_t bytes) {
  throw Error(LH_INTERNAL, "out of memory: cannot start a thread with a stack of " +
                               std::to_string(bytes >> 10U) + " KiB");
}

#if defined(_WIN32)

unsigned __stdcall start(void* work) {
  (*static_cast<Work*>(work))();
  return 0;
}

size_t run_thread(size_t bytes, Work& work) {
  const auto thread = reinterpret_cast<HANDLE>(
      _beginthreadex(nullptr, static_cast<unsigned>(bytes), start, &work,
                     STACK_SIZE_PARAM_IS_A_RESERVATION, nullptr));
  if (thread == nullptr) fail(bytes);
  WaitForSingleObject(thread, INFINITE);
  CloseHandle(thread);
  return 0;
}

#else

void* start(void* work) {
  (*static_cast<Work*>(work))();
  return nullptr;
}

// Pages below a stack that no thread may access. Some systems write them into the core
// file of a crash only if they were used.
class Stack {
 public:
  explicit Stack(size_t bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    guard_ = page;
    size_ = (bytes + page - 1) / page * page;
    unsigned flags = unsigned{MAP_PRIVATE} | unsigned{MAP_ANONYMOUS};
#if defined(MAP_NORESERVE)
    flags |= unsigned{MAP_NORESERVE};
#endif
    void* all = mmap(nullptr, guard_ + size_, PROT_READ | PROT_WRITE,
                     static_cast<int>(flags), -1, 0);
    if (all == MAP_FAILED) fail(bytes);
    low_ = static_cast<char*>(all) + guard_;
    if (mprotect(all, guard_, PROT_NONE) == 0) return;
    munmap(all, guard_ + size_);
    fail(bytes);
  }
  ~Stack() { munmap(low_ - guard_, guard_ + size_); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  void* low() const { return low_; }
  size_t size() const { return size_; }

  // Returns the distance from the upper end to the lowest byte that is not zero.
  size_t n_reached() const {
    size_t i = 0;
    while (i < size_ && low_[i] == 0) ++i;
    return size_ - i;
  }

 private:
  char* low_ = nullptr;
  size_t guard_ = 0;
  size_t size_ = 0;
};

size_t run_thread(size_t bytes, Work& work) {
  constexpr size_t kMeasured = size_t{16} << 20U;  // larger stacks are not searched
  const Stack stack(bytes);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) fail(bytes);
  pthread_t thread{};
  int status = pthread_attr_setstack(&attributes, stack.low(), stack.size());
  if (status == 0) {
    const SignalsBlocked blocked;
    status = pthread_create(&thread, &attributes, start, &work);
  }
  pthread_attr_destroy(&attributes);
  if (status != 0) fail(bytes);
  pthread_join(thread, nullptr);
  return stack.size() > kMeasured ? 0 : stack.n_reached();
}

#endif

}  // namespace

size_t run_with_stack(size_t bytes, const std::function<void()>& work) {
  Work guarded{work, nullptr};
  const size_t n_reached = run_thread(bytes, guarded);
  if (guarded.error) std::rethrow_exception(guarded.error);
  return n_reached;
}

}  // namespace lh
