// Tests that forked children are refused with a reason, and tests functions that use a
// child process.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>

#include "amx.hpp"
#include "newrllama_capi.h"
#include "process_check.hpp"
#include "toy.hpp"

namespace {

// Returns the exit status of a child of this process; -1 if it did not end by itself.
int in_child(const std::function<int()>& body) {
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) _exit(body());
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a child of a process with a model is refused, the parent goes on") {
  const auto model = toy::model();
  const int code = in_child([&] {
    lh_error error{};
    int32_t n = 0;
    if (lh_process_check(&error) != LH_FORKED) return 1;
    if (std::strstr(error.message, "was forked") == nullptr) return 2;
    if (lh_tokenize(model.get(), "a", 1, 1, 1, nullptr, 0, &n, &error) != LH_FORKED) {
      return 3;
    }
    newrllama_model_handle other = nullptr;
    const char* message = nullptr;
    if (newrllama_model_load(fake::kModelPath, 0, true, false, &other, &message) !=
            NEWRLLAMA_ERROR ||
        std::strstr(message, "was forked") == nullptr) {
      return 4;
    }
    lh_model_free(model.get());  // does nothing, so that locks of the parent have no
                                 // effect
    return model->n_vocab() == fake::kVocab ? 0 : 5;
  });
  CHECK(code == 0);
  CHECK(lh_process_check(nullptr) == LH_OK);
}

TEST_CASE("what would end this process is found out in a child") {
  CHECK(lh::child_survives([] {}));
  for (const int number : {SIGSEGV, SIGILL, SIGBUS}) {
    CHECK_FALSE(lh::child_survives([&] { raise(number); }));
  }
  CHECK(lh::child_survives([] { raise(SIGALRM); }));  // a child that is too slow shows
                                                      // nothing
}
