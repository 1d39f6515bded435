// Compares searches in a row of logits, and its log-softmax, with plain computations.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "log_softmax.hpp"
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

namespace {

double expected(const std::vector<float>& row) {
  long double most = -INFINITY;
  for (const float x : row) most = std::max(most, static_cast<long double>(x));
  long double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<long double>(x) - most);
  return static_cast<double>(most + std::log(sum));
}

double log_sum(const std::vector<float>& row) {
  return lh::log_sum_exp(row.data(), static_cast<int32_t>(row.size()));
}

}  // namespace

TEST_CASE("log_sum_exp is right to 1e-6 for rows of any length and spread") {
  std::mt19937 random(1);
  for (const size_t n : {1, 2, 15, 16, 17, 255, 256, 257, 1000, 49152, 262144}) {
    for (const float spread : {0.0F, 0.1F, 3.0F, 30.0F, 1e4F}) {
      std::normal_distribution<float> draw(-5.0F, spread);
      std::vector<float> row(n);
      for (float& x : row) x = spread > 0 ? draw(random) : 2.0F;
      CHECK(std::abs(log_sum(row) - expected(row)) <
            1e-6 + 1e-7 * std::abs(expected(row)));
    }
  }
}

TEST_CASE("tokens that may not come have no part in it") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> row(1000, -kInfinity);
  row[500] = 3.0F;
  CHECK(log_sum(row) == doctest::Approx(3.0));
  row[999] = 3.0F;
  CHECK(log_sum(row) == doctest::Approx(3.0 + std::log(2.0)));
}

TEST_CASE("what is no distribution gives no number") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const size_t at : {size_t{0}, size_t{299}}) {
    for (const float bad : {std::nanf(""), kInfinity}) {
      std::vector<float> row(300, 1.0F);
      row[at] = bad;
      CHECK(std::isnan(log_sum(row)));
    }
  }
  CHECK(std::isnan(log_sum(std::vector<float>(20, -kInfinity))));
}
