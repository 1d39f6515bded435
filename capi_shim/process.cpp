#include "process.hpp"

#include <atomic>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "guard.hpp"

#if !defined(_WIN32)
#include <pthread.h>
#endif

#if defined(__linux__)
// OpenMP 5.0, of the libgomp that ggml computes with; null if it has none.
extern "C" [[gnu::weak]] int omp_pause_resource_all(int kind);

#if !defined(__SANITIZE_THREAD__)  // which does not know how libgomp's threads wait
#define LH_BORROW_THREADS
// What GCC makes of "#pragma omp parallel": LLVM's runtime has it, too.
extern "C" [[gnu::weak]] void GOMP_parallel(void (*run)(void*), void* data,
                                            unsigned n_threads, unsigned flags);
#endif
#endif

namespace lh {
namespace {

// A fork is of the whole process, so what tells of it is global.
std::atomic<bool> has_model{false};
std::atomic<bool> is_refused{false};

#if !defined(_WIN32)
void on_fork() noexcept {
  if (has_model) is_refused = true;
}
#endif

#if defined(__linux__)
// Whether this process is a copy of another and has started no program since: the flag
// PF_FORKNOEXEC in /proc/self/stat (proc(5)).
bool is_forked() {
  constexpr unsigned kForkNoExec = 0x40;
  std::ifstream file("/proc/self/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  // The name, in brackets, may hold anything.
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  char state = 0;
  int64_t ignored = 0;  // parent, group, session, terminal, its group
  unsigned flags = kForkNoExec;
  fields >> state >> ignored >> ignored >> ignored >> ignored >> ignored >> flags;
  return (flags & kForkNoExec) != 0;
}
#endif

struct Work {
  size_t n;
  const std::function<void(size_t)>& run;
  std::atomic<size_t> next{0};
};

// What one thread does of it.
void take_share(void* data) {
  auto& work = *static_cast<Work*>(data);
  for (size_t i = work.next++; i < work.n; i = work.next++) work.run(i);
}

}  // namespace

void refuse_children() {
#if !defined(_WIN32)
  // Not a pid that is compared: this way a call costs no system call, and R's fork, which
  // Python's own hooks do not see, is noticed as well.
  static const int registered = pthread_atfork(nullptr, nullptr, on_fork);
  if (registered != 0) throw Error(LH_INTERNAL, "pthread_atfork has no memory left");
#endif
  has_model = true;
}

bool is_refused_child() noexcept { return is_refused; }

void release_threads() {
#if defined(__linux__)
  constexpr int kSoft = 1;  // omp_pause_soft
  // The threads of a forked child's parent would be waited for for ever.
  if (omp_pause_resource_all == nullptr || is_forked()) return;
  omp_pause_resource_all(kSoft);
#endif
}

void for_each(size_t n, int32_t n_threads, const std::function<void(size_t)>& run) {
  Work work{n, run};
#if defined(LH_BORROW_THREADS)
  if (GOMP_parallel != nullptr && n_threads > 1) {
    GOMP_parallel(take_share, &work, static_cast<unsigned>(n_threads), 0);
    return;
  }
#else
  static_cast<void>(n_threads);
#endif
  take_share(&work);
}

void check_process() {
  if (!is_refused) return;
  throw Error(LH_FORKED,
              "this process was forked from one that has loaded a model, and the threads "
              "that compute did not come along: load the model in each process, and "
              "start processes anew instead of forking them");
}

}  // namespace lh
