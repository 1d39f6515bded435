// Tests the comparison of the loaded libllama with the one of the build.
#include <doctest/doctest.h>

#include "library_check.hpp"

TEST_CASE("a libllama of another commit is recognized") {
  CHECK(lh::is_same_commit("0c1e5705", "0c1e570"));
  CHECK(lh::is_same_commit("0c1e570", "0c1e570"));
  CHECK(lh::is_same_commit("0c1e570-dirty", "0c1e570"));
  CHECK(lh::is_same_commit("0c1e570-dirty", "0c1e5705aa"));
  CHECK(lh::is_same_commit("anything", ""));
  CHECK_FALSE(lh::is_same_commit("0c1e57", "0c1e570"));
  CHECK_FALSE(lh::is_same_commit("0c1e571", "0c1e5705aa"));
  CHECK_FALSE(lh::is_same_commit("1c1e5705", "0c1e570"));
  CHECK_FALSE(lh::is_same_commit("unknown", "0c1e570"));
  CHECK_NOTHROW(lh::check_library());
}
