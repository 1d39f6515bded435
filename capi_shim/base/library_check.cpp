#include "library_check.hpp"

#include <cstdlib>
#include <cstring>
#include <string>

#include "ggml.h"
#include "guard.hpp"

namespace lh {

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

}  // namespace lh
