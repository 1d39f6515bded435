// Threads of our own, which compute: what ggml takes them for is in openmp.hpp.
//
// Those that wait look for work shortly and then sleep, so that another program which
// takes a processor from one does not hold up the others (docs/decisions/0031). All of it
// is for Linux; elsewhere one thread does everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace lh {

// Whether this process can have teams; if not, all work is done by the calling thread.
bool can_make_teams() noexcept;

// Calls run(data) on so many threads at a time, the calling one among them; fewer if they
// cannot be made, and one if the calling one runs such work already. Returns when all
// have. `run` must not throw.
void run_team(void (*run)(void*), void* data, int32_t n_threads) noexcept;

// What a thread is told about the team that it runs in.
struct Place {
  int32_t i_thread;   // 0: the one that called run_team
  int32_t n_threads;  // of the team
};

// Null on a thread that runs in no team.
const Place* team_place() noexcept;

// Of threads that run in a team. `team_barrier` returns when all of them have called it;
// `team_single` is true for the first of them, and again for the first of the next call.
void team_barrier() noexcept;
bool team_single() noexcept;

// Calls run(0) to run(n - 1), each once, on a team. `run` must not throw.
void for_each(size_t n, int32_t n_threads, const std::function<void(size_t)>& run);

// Ends the threads that have nothing to do. Work to come makes new ones.
void end_idle_threads() noexcept;

}  // namespace lh
