#include "logprobs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "log_softmax.hpp"

namespace lh {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Logprobs::Logprobs(int32_t n_top, int32_t n_vocab)
    : n_top_(std::min(n_top, n_vocab)), logits_(static_cast<size_t>(n_vocab)) {}

void Logprobs::read(const float* logits, LogitRow& row) noexcept {
  std::copy(logits, logits + logits_.size(), logits_.begin());
  log_sum_ = log_sum_exp(logits_.data(), static_cast<int32_t>(logits_.size()));
  highest_.clear();
  is_read_ = n_top_ == 0 || std::isnan(log_sum_);
  if (is_read_) return;
  row.find(logits_.data());
  try {
    row.take_top_k(n_top_, highest_);
    is_read_ = true;
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
    // accept() throws it
  }
}

void Logprobs::accept(int32_t token, size_t n) {
  if (!is_read_) throw std::bad_alloc();
  fill(n + 1);
  const auto of = [this](float logit) { return static_cast<double>(logit) - log_sum_; };
  chosen_[n] = of(logits_[static_cast<size_t>(token)]);
  size_t at = n * static_cast<size_t>(n_top_);
  for (const llama_token_data& candidate : highest_) {
    top_tokens_[at] = candidate.id;
    top_[at++] = of(candidate.logit);
  }
}

void Logprobs::fill(size_t n) {
  // Callers read as many alternatives as chosen_ has tokens, also of a request that
  // failed here without memory.
  const auto n_top = static_cast<size_t>(n_top_);
  top_tokens_.resize(n * n_top, -1);
  top_.resize(n * n_top, kNone);
  chosen_.resize(n, kNone);
}

}  // namespace lh
