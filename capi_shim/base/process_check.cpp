#include "process_check.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ggml.h"
#include "guard.hpp"

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

bool is_same_commit(const char* loaded, const char* built) noexcept {
  constexpr size_t kShortest = 7;
  size_t n = 0;
  while (built[n] != '\0' && loaded[n] == built[n]) ++n;
  if (built[n] == '\0') return true;
  const bool is_abbreviated = loaded[n] == '\0' || loaded[n] == '-';  // as in "-dirty"
  return is_abbreviated && n >= kShortest;
}

void check_library() {
  static const bool is_right = [] {
    const char* skip = std::getenv("LLAMAHERD_SKIP_ABI_CHECK");
    if (skip != nullptr && std::strcmp(skip, "1") == 0) return true;
    return is_same_commit(ggml_commit(), LH_LLAMA_COMMIT);
  }();
  if (is_right) return;
  throw Error(
      LH_INTERNAL,
      std::string("libllamaherd was compiled for llama.cpp " LH_LLAMA_COMMIT
                  ", but the loaded libllama was built from ") +
          ggml_commit() +
          ": put the right libllama first in the search path of libraries, or "
          "compile libllamaherd again (or set LLAMAHERD_SKIP_ABI_CHECK=1 to go on "
          "at your own risk)");
}

void check_process() {
  check_library();
  if (!is_refused) return;
  throw Error(
      LH_FORKED,
      "this process was forked from one that has loaded a model, and the "
      "compute threads were not copied: start new processes instead of forking "
      "(parallel::makeCluster() in R, \"spawn\" in Python), and load the model in "
      "each");
}

}  // namespace lh
