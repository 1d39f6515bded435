#include "fork_guard.hpp"

#include <atomic>

#include "guard.hpp"
#include "library_check.hpp"

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace lh {
namespace {

// A fork affects the whole process, so the flags are global.
std::atomic<bool> has_model{false};
std::atomic<bool> is_refused{false};

#if !defined(_WIN32)
void on_fork() noexcept {
  if (has_model) is_refused = true;
}
#endif

}  // namespace

void refuse_children() {
#if !defined(_WIN32)
  // Registers a fork handler instead of comparing process ids. A call then needs no
  // system call, and forks by R are also detected, which Python's hooks do not see.
  static const int registered = pthread_atfork(nullptr, nullptr, on_fork);
  if (registered != 0) throw Error(LH_INTERNAL, "pthread_atfork has no memory left");
#endif
  has_model = true;
}

bool is_refused_child() noexcept { return is_refused; }

void check_process() {
  check_library();
  if (!is_refused) return;
  throw Error(LH_FORKED,
              "this process was forked from one that has loaded a model, and the "
              "compute threads were not copied: load the model in each process, and "
              "start new processes instead of forking them");
}

}  // namespace lh
