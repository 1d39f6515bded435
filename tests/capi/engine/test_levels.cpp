// To which lengths the parts of a batch are filled up.
#include <doctest/doctest.h>

#include "levels.hpp"

namespace {

constexpr int32_t kRoom = 512;
using Lengths = std::vector<int32_t>;

Lengths level(const Lengths& lengths, bool amx, int32_t limit = 256,
              int32_t room = kRoom) {
  std::vector<lh::Length> parts;
  for (const int32_t n : lengths) parts.push_back({n, 0, limit});
  return lh::level(parts, room, amx);
}

}  // namespace

TEST_CASE("parts are filled up where that costs less than a computation more") {
  CHECK(level({}, false).empty());
  CHECK(level({1}, false) == Lengths{1});
  CHECK(level({5, 5, 5}, false) == Lengths{5, 5, 5});
  // Eight rows are what a computation costs beside its own.
  CHECK(level({3, 10}, false) == Lengths{10, 10});
  CHECK(level({3, 12}, false) == Lengths{3, 12});
  // Two short ones next to each other and two long ones.
  CHECK(level({3, 4, 20, 23}, false) == Lengths{4, 4, 23, 23});
}

TEST_CASE("with AMX parts are filled up to whole blocks of rows") {
  // 16 parts of 2, then 8 of 8 more: 32 and 64 rows, as many as without the fillers.
  Lengths lengths(8, 2);
  lengths.insert(lengths.end(), {7, 7, 7, 7, 10, 10, 10, 10});
  Lengths filled(8, 2);
  filled.insert(filled.end(), 8, 10);
  CHECK(level(lengths, true) == filled);
  CHECK(level(lengths, false) == lengths);
}

TEST_CASE("a filler costs more the more cells it sees") {
  for (const bool amx : {false, true}) {
    CHECK(lh::level({{1, 60, 256}, {1, 60, 256}, {3, 0, 256}}, kRoom, amx) ==
          Lengths{3, 3, 3});
    CHECK(lh::level({{1, 900, 9999}, {1, 900, 9999}, {3, 0, 256}}, kRoom, amx) ==
          Lengths{1, 1, 3});
  }
}

TEST_CASE("nothing is filled up beyond its limit, nor with more than there is room for") {
  for (const bool amx : {false, true}) {
    CHECK(level({6, 7, 8}, amx, 7) == Lengths{7, 7, 8});
    CHECK(level({6, 7, 7, 8}, amx, 256, 1) == Lengths{7, 7, 7, 8});
    CHECK(level({6, 7, 8}, amx, 256, 0) == Lengths{6, 7, 8});
  }
}
