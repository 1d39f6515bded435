// Threads for ggml's computations; openmp.hpp passes them to ggml. A waiting thread polls
// briefly and then sleeps. If another program occupies the processor of one thread, the
// other threads are therefore not delayed (docs/decisions/0031). Linux and Windows; on
// other systems one thread does all work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace lh {

// Tests whether this process can create teams. If not, the calling thread does all work.
bool can_make_teams() noexcept;

// Calls run(data) on n_threads threads at the same time, including the calling thread.
// If not all threads can be created, run_team uses fewer threads. If the calling thread
// is already in a team, run_team uses only one thread. Returns when all calls have
// returned. `run` must not throw.
void run_team(void (*run)(void*), void* data, int32_t n_threads) noexcept;

// Index of a thread in its team, and the size of the team.
struct Place {
  int32_t i_thread;   // 0: the thread that called run_team
  int32_t n_threads;  // size of the team
};

// Returns null on a thread outside a team.
const Place* team_place() noexcept;

// For threads in a team. `team_barrier` returns after all threads of the team have called
// it. In each round of calls, `team_single` returns true only for the first thread that
// calls it.
void team_barrier() noexcept;
bool team_single() noexcept;

// Calls run(0) to run(n - 1), each once, on a team. `run` must not throw.
void for_each(size_t n, int32_t n_threads, const std::function<void(size_t)>& run);

// Ends idle threads. Later work creates new threads.
void end_idle_threads() noexcept;

}  // namespace lh
