// Tests the lengths to which parts of a batch are padded.
#include <doctest/doctest.h>

#include "padding.hpp"

namespace {

constexpr int32_t kRoom = 512;
using Lengths = std::vector<int32_t>;

Lengths pad(const Lengths& lengths, bool amx, int32_t limit = 256, int32_t room = kRoom) {
  std::vector<lh::PartLength> parts;
  for (const int32_t n : lengths) parts.push_back({n, 0, limit});
  return lh::padded_lengths(parts, room, amx);
}

}  // namespace

TEST_CASE("parts are padded where that costs less than a computation more") {
  CHECK(pad({}, false).empty());
  CHECK(pad({1}, false) == Lengths{1});
  CHECK(pad({5, 5, 5}, false) == Lengths{5, 5, 5});
  // Each computation costs as much as eight additional rows.
  CHECK(pad({3, 10}, false) == Lengths{10, 10});
  CHECK(pad({3, 12}, false) == Lengths{3, 12});
  // Two short parts next to each other and two long parts.
  CHECK(pad({3, 4, 20, 23}, false) == Lengths{4, 4, 23, 23});
}

TEST_CASE("with AMX parts are padded to whole blocks of rows") {
  // 16 parts of 2 rows, then 8 parts of 8 more rows: 32 and 64 rows, the same as without
  // padding.
  Lengths lengths(8, 2);
  lengths.insert(lengths.end(), {7, 7, 7, 7, 10, 10, 10, 10});
  Lengths filled(8, 2);
  filled.insert(filled.end(), 8, 10);
  CHECK(pad(lengths, true) == filled);
  CHECK(pad(lengths, false) == lengths);
}

TEST_CASE("padding costs more the more cells it sees") {
  for (const bool amx : {false, true}) {
    CHECK(lh::padded_lengths({{1, 60, 256}, {1, 60, 256}, {3, 0, 256}}, kRoom, amx) ==
          Lengths{3, 3, 3});
    CHECK(lh::padded_lengths({{1, 900, 9999}, {1, 900, 9999}, {3, 0, 256}}, kRoom, amx) ==
          Lengths{1, 1, 3});
  }
}

TEST_CASE("nothing is padded beyond its limit, nor with more than there is room for") {
  for (const bool amx : {false, true}) {
    CHECK(pad({6, 7, 8}, amx, 7) == Lengths{7, 7, 8});
    CHECK(pad({6, 7, 7, 8}, amx, 256, 1) == Lengths{7, 7, 7, 8});
    CHECK(pad({6, 7, 8}, amx, 256, 0) == Lengths{6, 7, 8});
  }
}
