// libllama's callback that ends a computation when another thread has set a flag.
#pragma once

#include <atomic>

namespace lh {

// The callback's data is a std::atomic<bool>.
inline bool abort_is_set(void* flag) {
  return static_cast<std::atomic<bool>*>(flag)->load();
}

}  // namespace lh
