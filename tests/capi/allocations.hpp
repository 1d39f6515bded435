// Injected failures of operator new, for tests of what happens without memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace allocations {

struct State {
  bool is_on = false;
  int64_t n_left = 0;    // the allocation that makes it 0 fails; negative: all fail
  size_t least = 0;      // smaller allocations are not counted and do not fail
  int64_t n_failed = 0;  // allocations that failed
};
inline thread_local State state;

// While an object exists, allocation number n of this thread fails, counted from 1 among
// those of at least `least` bytes. kAll: all of them fail.
class Failing {
 public:
  static constexpr int64_t kAll = -1;
  explicit Failing(int64_t n, size_t least = 0) { state = {true, n, least, 0}; }
  ~Failing() { state = {}; }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;

  static bool has_failed() { return state.n_failed > 0; }
};

// While an object exists, all allocations of this thread succeed.
class Exempt {
 public:
  Exempt() : was_on_(state.is_on) { state.is_on = false; }
  ~Exempt() { state.is_on = was_on_; }
  Exempt(const Exempt&) = delete;
  Exempt& operator=(const Exempt&) = delete;

 private:
  const bool was_on_;
};

}  // namespace allocations
