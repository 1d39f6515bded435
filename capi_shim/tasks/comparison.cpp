#include "comparison.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "guard.hpp"

using lh::Error;

namespace {

constexpr int32_t kMaxTokens = 256;  // maximum tokens of a chunk
// Tokens per decode. This number limits the size of the logits, which need most of the
// memory: 64 MiB per model with a vocabulary of 262k.
constexpr int32_t kPiece = 64;

// Distribution given by a row of logits.
struct Distribution {
  const float* logits;
  int32_t top;
  double log_sum;  // log of the sum of exp(logit)

  double log_p(int32_t token) const {
    return static_cast<double>(logits[token]) - log_sum;
  }
};

Distribution distribution(const float* logits, int32_t n) {
  if (logits == nullptr) {
    throw Error(LH_MODEL_ERROR, "the model gives no logits (is it an embedding model?)");
  }
  const auto top = static_cast<int32_t>(std::max_element(logits, logits + n) - logits);
  double sum = 0;
  for (int32_t i = 0; i < n; ++i) {
    sum += static_cast<double>(std::exp(logits[i] - logits[top]));
  }
  const double log_sum = static_cast<double>(logits[top]) + std::log(sum);
  if (!std::isfinite(log_sum)) {
    throw Error(LH_MODEL_ERROR, "the model computes logits that are not finite numbers");
  }
  return {logits, top, log_sum};
}

// KL divergence (p || q) in nats.
double kl_divergence(const Distribution& p, const Distribution& q, int32_t n) {
  double sum = 0;
  for (int32_t i = 0; i < n; ++i) {
    const double log_p = p.log_p(i);
    const auto share = static_cast<double>(std::exp(static_cast<float>(log_p)));
    if (share > 0) sum += share * (log_p - q.log_p(i));
  }
  return std::max(sum, 0.0);  // rounding may give a slightly negative sum
}

}  // namespace

lh_comparison::lh_comparison(const lh_model& base, const lh_model& other,
                             int32_t n_threads)
    : held_base_(base.held()),
      held_other_(other.held()),
      n_vocab_(base.n_vocab()),
      batch_(kPiece) {
  lh::require_range("n_threads", n_threads, 0, 1024);
  lh::require(base.n_vocab() == other.n_vocab(),
              "the models must have the same vocabulary, not " +
                  std::to_string(base.n_vocab()) + " and " +
                  std::to_string(other.n_vocab()) + " tokens");
  base_ = make_context(base, n_threads);
  other_ = make_context(other, n_threads);
}

llama_context_ptr lh_comparison::make_context(const lh_model& model, int32_t n_threads) {
  if (llama_model_has_encoder(model.get()) || !llama_model_has_decoder(model.get())) {
    throw Error(LH_MODEL_ERROR,
                "the model has an encoder; only decoder models predict text");
  }
  llama_context_params native = llama_context_default_params();
  native.n_ctx = kMaxTokens;
  native.n_batch = kPiece;
  native.n_ubatch = kPiece;
  native.n_seq_max = 1;
  if (n_threads > 0) native.n_threads = native.n_threads_batch = n_threads;
  llama_context_ptr ctx = lh::make_context(model, native, &abort_flag_);
  if (llama_get_memory(ctx.get()) == nullptr) {
    throw Error(LH_MODEL_ERROR,
                "the model keeps no memory of a text (is it an embedding model?)");
  }
  return ctx;
}

void lh_comparison::add(const int32_t* tokens, int32_t n_tokens) {
  lh::require_range("n_tokens", n_tokens, 2, kMaxTokens);
  for (int32_t i = 0; i < n_tokens; ++i) {
    lh::require(tokens[i] >= 0 && tokens[i] < n_vocab_,
                "tokens[" + std::to_string(i) + "] is " + std::to_string(tokens[i]) +
                    ", but the vocabulary has " + std::to_string(n_vocab_) + " tokens");
  }
  for (const llama_context_ptr* ctx : {&base_, &other_}) {
    llama_memory_clear(llama_get_memory(ctx->get()), true);
  }
  // As in llama.cpp's perplexity program, only tokens in the second half of a chunk are
  // scored.
  const int32_t first = n_tokens / 2 - 1;
  const int32_t end = n_tokens - 1;  // no token follows the last one
  for (int32_t begin = 0; begin < end; begin += kPiece) {
    const int32_t n = std::min(kPiece, end - begin);
    batch_.clear();
    for (int32_t i = begin; i < begin + n; ++i) batch_.add(tokens[i], i, 0, i >= first);
    for (const llama_context_ptr* ctx : {&base_, &other_}) {
      lh::compute(ctx->get(), batch_.get(), abort_flag_);
    }
    for (int32_t i = std::max(begin, first); i < begin + n; ++i) {
      score(i - begin, tokens[i + 1]);
    }
  }
}

void lh_comparison::score(int32_t row, int32_t next_token) {
  const Distribution p = distribution(llama_get_logits_ith(base_.get(), row), n_vocab_);
  const Distribution q = distribution(llama_get_logits_ith(other_.get(), row), n_vocab_);
  kl_.push_back(kl_divergence(p, q, n_vocab_));
  base_nll_ -= p.log_p(next_token);
  other_nll_ -= q.log_p(next_token);
  n_same_top_ += static_cast<int64_t>(p.top == q.top);
}

lh_comparison_result lh_comparison::result() const {
  lh::require(!kl_.empty(), "nothing was compared yet");
  const auto n = static_cast<double>(kl_.size());
  std::vector<double> sorted(kl_);
  std::sort(sorted.begin(), sorted.end());
  double sum = 0;
  for (const double kl : sorted) sum += kl;
  const auto rank = static_cast<size_t>(std::ceil(0.99 * n)) - 1;
  lh_comparison_result result{};
  result.n_tokens = static_cast<int64_t>(sorted.size());
  result.base_perplexity = std::exp(base_nll_ / n);
  result.other_perplexity = std::exp(other_nll_ / n);
  result.mean_kl = sum / n;
  result.p99_kl = sorted[rank];
  result.max_kl = sorted.back();
  result.same_top = static_cast<double>(n_same_top_) / n;
  return result;
}
