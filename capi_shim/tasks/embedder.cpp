#include "embedder.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "guard.hpp"
#include "llama_compat.hpp"

using lh::Error;

namespace {

constexpr int32_t kMostTokens = 16'777'216;  // maximum tokens of a batch

lh_embedder_params checked(const lh_model& model, const lh_embedder_params& p) {
  const bool has_encoder = llama_model_has_encoder(model.get());
  if (has_encoder && llama_model_has_decoder(model.get())) {
    throw Error(LH_MODEL_ERROR,
                "the model has an encoder and a decoder: it translates texts, and has no "
                "vectors for them");
  }
  lh::require_range("pooling", p.pooling, LH_POOLING_MEAN, LH_POOLING_LAST);
  lh::require_range("n_batch", p.n_batch, 1, kMostTokens);
  lh::require_range("n_ctx", p.n_ctx, 1, INT32_MAX);
  lh::require_range("n_seq_max", p.n_seq_max, 1,
                    static_cast<int64_t>(llama_max_parallel_sequences()));
  lh::require_range("n_threads", p.n_threads, 0, 1024);
  return p;
}

// Writes the vector that belongs to pooled sums; NaN if the text has no vector.
void write_vector(double* sums, int32_t n_embd, bool normalize, float* out) {
  double square = 0;
  for (int32_t i = 0; i < n_embd; ++i) square += sums[i] * sums[i];
  const bool is_number = std::isfinite(square) && (square > 0 || !normalize);
  const double scale = normalize ? 1 / std::sqrt(square) : 1;
  for (int32_t i = 0; i < n_embd; ++i) {
    out[i] = is_number ? static_cast<float>(sums[i] * scale)
                       : std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace

lh_embedder::lh_embedder(const lh_model& model, const lh_embedder_params& params)
    : held_model_(model.held()),
      model_(model),
      params_(checked(model, params)),
      ctx_(make_context()),
      memory_(llama_get_memory(ctx_.get())),
      is_causal_(memory_ != nullptr && lh::compat::is_causal(ctx_.get())),
      n_embd_(llama_model_n_embd_out(model.get())),
      batch_(params.n_batch) {}

llama_context_ptr lh_embedder::make_context() {
  llama_context_params native = llama_context_default_params();
  native.n_ctx = static_cast<uint32_t>(params_.n_ctx);
  native.n_batch = static_cast<uint32_t>(params_.n_batch);
  native.n_ubatch = native.n_batch;  // a non-causal model computes a batch as a whole
  native.n_seq_max = static_cast<uint32_t>(params_.n_seq_max);
  native.kv_unified = true;  // texts of different lengths share a computation
  native.embeddings = true;
  // Requests one row per token. The rows are pooled here, because libllama pools only
  // within one computation.
  native.pooling_type = LLAMA_POOLING_TYPE_NONE;
  if (params_.n_threads > 0) {
    native.n_threads = native.n_threads_batch = params_.n_threads;
  }
  return lh::make_context(model_, native, &abort_flag_);
}

void lh_embedder::check(const int32_t* tokens, const int64_t* offsets,
                        int32_t n_texts) const {
  lh::require_range("n_texts", n_texts, 1, params_.n_seq_max);
  lh::require(offsets[0] == 0, "offsets must start with 0");
  const int32_t n_text_max = llama_model_n_ctx_train(model_.get());
  for (int32_t i = 0; i < n_texts; ++i) {
    const int64_t n = offsets[i + 1] - offsets[i];
    lh::require(n >= 1 && n <= n_text_max,
                "text " + std::to_string(i) + " must have 1 to " +
                    std::to_string(n_text_max) + " tokens, not " + std::to_string(n));
  }
  const int32_t most = computes_at_once() ? params_.n_batch : params_.n_ctx;
  lh::require_range("offsets[n_texts]", offsets[n_texts], 1, most);
  for (int64_t i = 0; i < offsets[n_texts]; ++i) {
    lh::require(model_.contains(tokens[i]), "token " + std::to_string(tokens[i]) +
                                                " is not in the vocabulary of " +
                                                std::to_string(model_.n_vocab()));
  }
}

void lh_embedder::run(const int32_t* tokens, const int64_t* offsets, int32_t n_texts,
                      float* out) {
  check(tokens, offsets, n_texts);
  tokens_ = tokens;
  offsets_ = offsets;
  sums_.assign(static_cast<size_t>(n_texts) * static_cast<size_t>(n_embd_), 0.0);
  if (memory_ != nullptr) llama_memory_clear(memory_, true);

  // In a causal model only the rows of pooled tokens are requested, because libllama also
  // computes a row of logits for each requested row.
  std::vector<Place> before;
  std::vector<Place> pooled;
  for (int32_t text = 0; text < n_texts; ++text) {
    for (int32_t p = 0; p < n_tokens(text); ++p) {
      if (computes_at_once() || is_pooled({text, p})) {
        pooled.push_back({text, p});
      } else if (params_.pooling == LH_POOLING_LAST) {
        before.push_back({text, p});
      }
    }
  }
  compute(before, false);
  compute(pooled, true);
  for (int32_t text = 0; text < n_texts; ++text) {
    const size_t at = static_cast<size_t>(text) * static_cast<size_t>(n_embd_);
    write_vector(sums_.data() + at, n_embd_, params_.normalize != 0, out + at);
  }
}

int32_t lh_embedder::n_tokens(int32_t text) const {
  return static_cast<int32_t>(offsets_[text + 1] - offsets_[text]);
}

bool lh_embedder::is_pooled(const Place& place) const {
  if (params_.pooling == LH_POOLING_MEAN) return true;
  const bool is_last = place.position == n_tokens(place.text) - 1;
  return params_.pooling == LH_POOLING_LAST ? is_last : place.position == 0;
}

void lh_embedder::compute(const std::vector<Place>& places, bool with_rows) {
  llama_set_embeddings(ctx_.get(), with_rows);
  const auto n_batch = static_cast<size_t>(params_.n_batch);
  for (size_t begin = 0; begin < places.size(); begin += n_batch) {
    const size_t end = std::min(places.size(), begin + n_batch);
    batch_.clear();
    for (size_t i = begin; i < end; ++i) {
      const auto [text, position] = places[i];
      batch_.add(tokens_[offsets_[text] + position], position, text, with_rows);
    }
    lh::compute(ctx_.get(), batch_.get(), abort_flag_);
    if (!with_rows) continue;
    for (size_t i = begin; i < end; ++i) {
      if (!is_pooled(places[i])) continue;
      const auto row = static_cast<int32_t>(i - begin);
      take_row(places[i].text, llama_get_embeddings_ith(ctx_.get(), row));
    }
  }
}

void lh_embedder::take_row(int32_t text, const float* row) {
  if (row == nullptr) throw Error(LH_DECODE_ERROR, "libllama gave no embeddings");
  double* sum = sums_.data() + static_cast<size_t>(text) * static_cast<size_t>(n_embd_);
  const double share = params_.pooling == LH_POOLING_MEAN ? 1.0 / n_tokens(text) : 1;
  for (int32_t i = 0; i < n_embd_; ++i) sum[i] += share * static_cast<double>(row[i]);
}
