#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "log_softmax.hpp"

namespace {

double expected(const std::vector<float>& row) {
  long double most = -INFINITY;
  for (const float x : row) most = std::max(most, static_cast<long double>(x));
  long double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<long double>(x) - most);
  return static_cast<double>(most + std::log(sum));
}

double found(const std::vector<float>& row) {
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
      CHECK(std::abs(found(row) - expected(row)) < 1e-6 + 1e-7 * std::abs(expected(row)));
    }
  }
}

TEST_CASE("tokens that may not come have no part in it") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> row(1000, -kInfinity);
  row[500] = 3.0F;
  CHECK(found(row) == doctest::Approx(3.0));
  row[999] = 3.0F;
  CHECK(found(row) == doctest::Approx(3.0 + std::log(2.0)));
}

TEST_CASE("what is no distribution gives no number") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const size_t at : {size_t{0}, size_t{299}}) {
    for (const float bad : {std::nanf(""), kInfinity}) {
      std::vector<float> row(300, 1.0F);
      row[at] = bad;
      CHECK(std::isnan(found(row)));
    }
  }
  CHECK(std::isnan(found(std::vector<float>(20, -kInfinity))));
}
