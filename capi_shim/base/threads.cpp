#include "threads.hpp"

#include <atomic>

#if defined(__linux__) || defined(_WIN32)
#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "thread_system.hpp"

namespace lh {
namespace {

// Number of polls before a thread sleeps. The polls take about 20 microseconds, longer
// than most operations of ggml, and much shorter than the time slice of a thread that
// lost its processor.
constexpr int kLooks = 1000;

// Counter that threads can wait for until it changes.
class alignas(64) Signal {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  void wait(uint32_t old) {
    for (int i = 0; i < kLooks; ++i) {
      if (value() != old) return;
      relax();
    }
    // The order of these lines is opposite to the order in `raise`. Therefore either
    // `raise` sees a sleeping thread, or the kernel sees the new value.
    ++n_asleep_;
    while (value() == old) sleep_on(value_, old);
    --n_asleep_;
  }

  void raise() {
    ++value_;
    if (n_asleep_ != 0) wake_all(value_);
  }

 private:
  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> n_asleep_{0};
};

class Team;

// Role of a thread while it runs the team's work.
struct OwnPlace : Place {
  Team* team;  // null: alone
  uint32_t n_singles = 0;
};

const ThreadPointer& place() {
  static const ThreadPointer pointer;
  return pointer;
}

OwnPlace* own_place() { return static_cast<OwnPlace*>(place().get()); }

void run_at(OwnPlace inner, void (*run)(void*), void* data) {
  OwnPlace* const outer = own_place();
  place().set(&inner);
  run(data);
  place().set(outer);
}

// Threads that wait for work, with the caller of `run` as the first.
class Team {
 public:
  // Creates up to this many threads: fewer if the system allows no more. Throws
  // std::bad_alloc.
  explicit Team(int32_t n_threads) {
    threads_.reserve(static_cast<size_t>(n_threads - 1));
    const SignalsBlocked blocked;
    try {
      for (int32_t i = 1; i < n_threads; ++i) {
        threads_.emplace_back([this, i] { work(i); });
      }
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
      // If no more threads can be created, the existing threads do the work.
    }
    n_ = static_cast<int32_t>(threads_.size()) + 1;
  }

  ~Team() {
    is_over_ = true;
    start_.raise();
    for (std::thread& thread : threads_) thread.join();
  }

  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int32_t n_threads() const { return n_; }

  void run(void (*body)(void*), void* data) {
    run_ = body;
    data_ = data;
    n_singles_ = 0;
    start_.raise();
    take_part(0);
  }

  void barrier() {
    const uint32_t old = passed_.value();
    if (++n_arrived_ == n_) {
      n_arrived_ = 0;
      passed_.raise();
    } else {
      passed_.wait(old);
    }
  }

  // Returns true for the first thread that calls it for number i.
  bool single(uint32_t i) { return n_singles_.compare_exchange_strong(i, i + 1); }

 private:
  void work(int32_t i_thread) {
    for (uint32_t n_seen = 0;; ++n_seen) {
      start_.wait(n_seen);
      if (is_over_) return;
      take_part(i_thread);
    }
  }

  void take_part(int32_t i_thread) {
    run_at({{i_thread, n_}, this}, run_, data_);
    barrier();
  }

  Signal start_;   // incremented for each piece of work, and at the end
  Signal passed_;  // incremented for each barrier
  alignas(64) std::atomic<int32_t> n_arrived_{0};
  std::atomic<uint32_t> n_singles_{0};
  int32_t n_ = 1;  // set before the first piece of work
  void (*run_)(void*) = nullptr;
  void* data_ = nullptr;
  std::atomic<bool> is_over_{false};
  std::vector<std::thread> threads_;
};

// Teams without work.
struct Idle {
  std::mutex mutex;
  std::vector<std::unique_ptr<Team>> teams;
};

// Never freed, because other threads may still compute while the process exits. If there
// is no memory for this object, the library cannot be loaded.
// NOLINTNEXTLINE(bugprone-throwing-static-initialization)
Idle* idle = new Idle;

// A forked child has none of the threads, and its copy of the lock may be locked.
void forget_in_child() { idle = new Idle; }

std::unique_ptr<Team> take_team(int32_t n_threads) {
  static const bool registered = call_in_forked_child(forget_in_child);
  static_cast<void>(registered);
  {
    const std::scoped_lock lock(idle->mutex);
    auto& teams = idle->teams;
    const auto position =
        std::find_if(teams.rbegin(), teams.rend(),
                     [&](const auto& team) { return team->n_threads() == n_threads; });
    if (position != teams.rend()) {
      std::unique_ptr<Team> team = std::move(*position);
      teams.erase(std::next(position).base());
      return team;
    }
  }
  return std::make_unique<Team>(n_threads);
}

// A team with too few threads is not kept, because more threads may be available next
// time.
void give_back(std::unique_ptr<Team> team, int32_t n_wanted) {
  if (team->n_threads() < n_wanted) return;
  const std::scoped_lock lock(idle->mutex);
  idle->teams.push_back(std::move(team));
}

}  // namespace

bool can_make_teams() noexcept { return place().is_made(); }

void run_team(void (*run)(void*), void* data, int32_t n_threads) noexcept {
  if (!can_make_teams()) {
    run(data);
    return;
  }
  std::unique_ptr<Team> team;
  try {
    if (n_threads > 1 && own_place() == nullptr) team = take_team(n_threads);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    // If there is no memory for a team, the calling thread works alone.
  }
  if (team == nullptr) {
    run_at({{0, 1}, nullptr}, run, data);
    return;
  }
  team->run(run, data);
  try {
    give_back(std::move(team), n_threads);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    // If there is no memory to keep the team, it ends.
  }
}

const Place* team_place() noexcept { return own_place(); }

void team_barrier() noexcept {
  if (Team* team = own_place()->team) team->barrier();
}

bool team_single() noexcept {
  OwnPlace* place = own_place();
  return place->team == nullptr || place->team->single(place->n_singles++);
}

void end_idle_threads() noexcept {
  std::vector<std::unique_ptr<Team>> ended;
  const std::scoped_lock lock(idle->mutex);
  ended.swap(idle->teams);
}

}  // namespace lh

#else

namespace lh {

bool can_make_teams() noexcept { return false; }
void run_team(void (*run)(void*), void* data, int32_t) noexcept { run(data); }
const Place* team_place() noexcept { return nullptr; }
void team_barrier() noexcept {}
bool team_single() noexcept { return true; }
void end_idle_threads() noexcept {}

}  // namespace lh

#endif

namespace lh {

void for_each(size_t n, int32_t n_threads, const std::function<void(size_t)>& run) {
  struct Work {
    size_t n;
    const std::function<void(size_t)>& run;
    std::atomic<size_t> next{0};
  } work{n, run};
  const auto take_share = [](void* data) {
    auto& shared = *static_cast<Work*>(data);
    for (size_t i = shared.next++; i < shared.n; i = shared.next++) shared.run(i);
  };
  run_team(take_share, &work, n_threads);
}

}  // namespace lh
