// Injected failures of operator new, for tests of what happens without memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace allocations {

struct State {
  bool is_on = false;
  int64_t first = 1;  // allocations first to last fail, counted from 1
  int64_t last = 0;
  size_t least = 0;  // smaller allocations are not counted and do not fail
  int64_t n = 0;     // allocations so far
};
inline thread_local State state;

// While an object exists, allocations `first` to `last` of this thread fail, counted from
// 1 among those of at least `least` bytes.
class Failing {
 public:
  explicit Failing(int64_t first, int64_t last, size_t least = 0) {
    state = {true, first, last, least, 0};
  }
  ~Failing() { state = {}; }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;

  static bool has_failed() { return state.n >= state.first; }
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
