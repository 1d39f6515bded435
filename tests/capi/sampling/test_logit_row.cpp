// Compares searches for the largest logits of a row with plain searches.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "logit_row.hpp"

namespace {

lh::LogitRow row_of(const std::vector<float>& logits) {
  lh::LogitRow row(static_cast<int32_t>(logits.size()));
  row.find(logits.data());
  return row;
}

// Returns indices of a row, largest value first; equal values in order of index.
std::vector<int32_t> ranking(const std::vector<float>& row) {
  std::vector<int32_t> ids(row.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
  });
  return ids;
}

}  // namespace

TEST_CASE("the largest logit is the first of equals") {
  CHECK(row_of({1, 3, 3, 2}).argmax() == 1);
  CHECK(row_of({-INFINITY, -INFINITY, -5, -INFINITY}).argmax() == 2);
  CHECK(row_of({-INFINITY, -INFINITY}).highest() == -INFINITY);
}

TEST_CASE("argmax, top-k and NaN are found in rows of every length") {
  std::mt19937 random(5);
  for (int32_t n = 1; n < 9000; n += n < 600 ? 1 : 371) {
    // With few different values, many are equal; with many values, few blocks must be
    // read.
    const uint32_t n_values = n % 2 == 0 ? 20 : 100000;
    std::vector<float> logits(static_cast<size_t>(n));
    for (float& x : logits) x = static_cast<float>(random() % n_values) - 10.0F;
    lh::LogitRow row = row_of(logits);
    const std::vector<int32_t> ids = ranking(logits);
    CHECK(row.argmax() == ids[0]);
    CHECK(row.highest() == logits[static_cast<size_t>(ids[0])]);

    const auto any = static_cast<int32_t>(random() % logits.size());
    for (const int32_t k : {1, std::min(n, 5), 1 + any, n}) {
      std::vector<llama_token_data> taken;
      row.take_top_k(k, taken);
      CHECK(taken.size() == static_cast<size_t>(k));
      CHECK(std::equal(taken.begin(), taken.end(), ids.begin(),
                       [&](const llama_token_data& a, int32_t id) {
                         return a.id == id && a.logit == logits[static_cast<size_t>(id)];
                       }));
    }

    logits[static_cast<size_t>(any)] = NAN;
    CHECK(std::isnan(row_of(logits).highest()));
  }
}
