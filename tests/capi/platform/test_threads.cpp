// Tests of teams of threads, and of ggml's computations on them.
#include <doctest/doctest.h>
#if defined(__linux__)
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "ggml-cpp.h"
#include "guard.hpp"
#include "malloc.hpp"
#include "memory.hpp"
#include "openmp.hpp"
#include "threads.hpp"

TEST_CASE("each piece of work is done once, on however many threads") {
  for (const int32_t n_threads : {1, 2, 5}) {
    for (const size_t n : {0, 1, 3, 1000}) {
      std::vector<std::atomic<int32_t>> done(n);
      lh::for_each(n, n_threads, [&](size_t i) { ++done[i]; });
      CHECK(std::all_of(done.begin(), done.end(), [](int32_t x) { return x == 1; }));
    }
  }
}

TEST_CASE("whether ggml's threads are ours does not change") {
  CHECK(lh::own_threads() == lh::own_threads());
}

#if defined(__linux__) || defined(_WIN32)  // other systems have no teams

namespace {

// Runs a function on a team.
template <class Body>
void on_team(int32_t n_threads, Body body) {
  lh::run_team([](void* data) { (*static_cast<Body*>(data))(); }, &body, n_threads);
}

}  // namespace

TEST_CASE("a team has as many threads as asked for, each with a number of its own") {
  for (const int32_t n_threads : {1, 2, 3, 7}) {
    std::vector<std::atomic<int32_t>> seen(static_cast<size_t>(n_threads));
    on_team(n_threads, [&] {
      CHECK(lh::team_place()->n_threads == n_threads);
      ++seen[static_cast<size_t>(lh::team_place()->i_thread)];
    });
    CHECK(std::all_of(seen.begin(), seen.end(), [](int32_t x) { return x == 1; }));
  }
  CHECK(lh::team_place() == nullptr);
}

TEST_CASE("nobody passes a barrier before all have come to it") {
  constexpr int32_t kThreads = 4;
  constexpr int32_t kRounds = 500;
  std::atomic<int32_t> n_come{0};
  std::atomic<int32_t> n_early{0};
  on_team(kThreads, [&] {
    for (int32_t round = 1; round <= kRounds; ++round) {
      ++n_come;
      // Some threads arrive so late that the others already sleep.
      if (round % 50 == 0 && lh::team_place()->i_thread == round / 50 % kThreads) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      lh::team_barrier();
      if (n_come < round * kThreads) ++n_early;
      lh::team_barrier();
    }
  });
  CHECK(n_come == kThreads * kRounds);
  CHECK(n_early == 0);
}

TEST_CASE("of a team one thread does what is for one, each time") {
  for (const int32_t n_threads : {1, 3}) {
    std::atomic<int32_t> n_single{0};
    on_team(n_threads, [&] {
      for (int32_t i = 0; i < 100; ++i) n_single += lh::team_single() ? 1 : 0;
    });
    CHECK(n_single == 100);
  }
}

TEST_CASE("work inside of work is done by one thread") {
  std::atomic<int32_t> n_inner{0};
  on_team(3, [&] {
    on_team(3, [&] {
      CHECK(lh::team_place()->n_threads == 1);
      lh::team_barrier();
      ++n_inner;
    });
    CHECK(lh::team_place()->n_threads == 3);
  });
  CHECK(n_inner == 3);
}

TEST_CASE("several threads have teams at a time") {
  std::atomic<int32_t> n_done{0};
  std::vector<std::thread> callers;
  for (int32_t i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int32_t round = 0; round < 50; ++round) {
        on_team(3, [&] {
          lh::team_barrier();
          ++n_done;
        });
        if (round % 10 == 0) lh::end_idle_threads();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(n_done == 4 * 50 * 3);
}

#endif

#if defined(__linux__)

namespace {

// Returns the result of a function in a forked child. The child is killed, so that no
// leak checker reports memory of threads that the child does not have.
[[maybe_unused]] int32_t counted_in_child(int32_t (*body)()) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    const int32_t value = body();
    if (write(ends[1], &value, sizeof value) != sizeof value) std::abort();
    kill(getpid(), SIGKILL);
  }
  close(ends[1]);
  int32_t value = -1;
  CHECK(read(ends[0], &value, sizeof value) == sizeof value);
  close(ends[0]);
  CHECK(waitpid(pid, nullptr, 0) == pid);
  return value;
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("without memory for threads there are fewer of them, and all is done") {
  if (!is_glibc_malloc()) return;  // valgrind ends a process that has no memory left
  constexpr int32_t kUnlimited = 2;
  lh::end_idle_threads();
  const int32_t is_done = counted_in_child([] {
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = 400UL << 20U;  // 64 stacks of 8 MiB need more
    setrlimit(RLIMIT_AS, &limit);
    if (mmap(nullptr, 1UL << 30U, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
        MAP_FAILED) {
      return kUnlimited;  // qemu-user ignores the limit
    }
    std::atomic<int32_t> n_done{0};
    int32_t n_threads = 0;
    on_team(64, [&] {
      if (lh::team_single()) n_threads = lh::team_place()->n_threads;
      lh::team_barrier();
      ++n_done;
    });
    return n_done == n_threads && n_threads < 64 ? 1 : 0;
  });
  if (is_done == kUnlimited) {
    MESSAGE("this system does not enforce limits of address space");
    return;
  }
  CHECK(is_done == 1);
}
#endif

#if !defined(__SANITIZE_THREAD__)  // which cannot create threads in a forked child
TEST_CASE("a forked child has teams of its own") {
  on_team(2, [] {});  // the team now waits for work
  const int32_t n_done = counted_in_child([] {
    std::atomic<int32_t> n{0};
    on_team(2, [&] { ++n; });
    return n.load();
  });
  CHECK(n_done == 2);
}
#endif

TEST_CASE("what ggml asserts is an error inside of guard") {
  lh::throw_assertions();
  const ggml_context_ptr tensors(ggml_init({1U << 16U, nullptr, true}));
  const auto make = [&] { ggml_new_tensor_1d(tensors.get(), GGML_TYPE_COUNT, 1); };
  lh_error error{};
  for (int32_t i = 0; i < 3; ++i) {
    CHECK(lh::guard(&error, make) == LH_INTERNAL);
    CHECK(std::string(error.message).find("llama.cpp gave up: ") == 0);
    CHECK(std::string(error.message).find("GGML_ASSERT") != std::string::npos);
  }
  CHECK(lh::guard(&error, [] {}) == LH_OK);
}

TEST_CASE("memory that is not there is an error, with the amount") {
  CHECK_NOTHROW(lh::require_memory(1U << 20U));
  CHECK_THROWS_WITH_AS(lh::require_memory(size_t{1} << 55U),
                       doctest::Contains("less than 34359738368 MiB are left"),
                       lh::Error);
}

#endif
