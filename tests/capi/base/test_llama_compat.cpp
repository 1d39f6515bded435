// Tests of calls whose declarations differ between versions of the headers.
#include <doctest/doctest.h>

#include <type_traits>

#include "llama_compat.hpp"

namespace detail = lh::compat::detail;

namespace {

// Has the fields of llama_model_params until 0.3.34.
struct OldParams {
  bool use_mmap = true;
  bool use_mlock = true;
};

struct NoFunctions {};

}  // namespace

TEST_CASE("the way to load a model is set by whichever fields there are") {
  const llama_load_mode modes[] = {LLAMA_LOAD_MODE_NONE, LLAMA_LOAD_MODE_MMAP,
                                   LLAMA_LOAD_MODE_MLOCK, LLAMA_LOAD_MODE_MMAP_MLOCK};
  for (const bool mlock : {false, true}) {
    for (const bool mmap : {false, true}) {
      llama_model_params params = llama_model_default_params();
      lh::compat::set_load_mode(params, mmap, mlock);
      CHECK(params.load_mode == modes[(mlock ? 2 : 0) + (mmap ? 1 : 0)]);
      OldParams old;
      detail::set_load_mode(old, mmap, mlock, 0);
      CHECK(old.use_mmap == mmap);
      CHECK(old.use_mlock == mlock);
    }
  }
}

TEST_CASE("a function that the headers lack is done without") {
  const NoFunctions none;
  int32_t n = -1;
  CHECK(detail::suppressed_tokens(&none, &n, 0) == nullptr);
  CHECK(n == 0);
  CHECK_THROWS_WITH_AS(detail::tensor_shape(&none, 0, 0),
                       doctest::Contains("0.3.35 and later have it"), lh::Error);
}
