// extern "C" functions of llamaherd.h that requantize and compare models, and embed
// texts.
#include <string>
#include <thread>

#include "comparison.hpp"
#include "embedder.hpp"
#include "guard.hpp"
#include "log.hpp"
#include "struct_size.hpp"

using lh::deref;
using lh::guard;

int32_t lh_model_quantize(const char* path, const char* out_path, int32_t ftype,
                          int32_t n_threads, lh_error* error) {
  return guard(error, [&] {
    deref(path, "path");
    deref(out_path, "out_path");
    lh::require_range("ftype", ftype, 0, LLAMA_FTYPE_GUESSED - 1);
    lh::require_range("n_threads", n_threads, 0, 1024);
    // libllama would map the file and write to it at the same time.
    lh::require(std::string(path) != out_path, "out_path must not be path");
    lh::backend_init(false);
    llama_model_quantize_params params = llama_model_quantize_default_params();
    params.ftype = static_cast<llama_ftype>(ftype);
    params.nthread = n_threads;
    params.allow_requantize = true;
    // libllama creates threads and does not handle a failure to create a thread.
    const auto n = n_threads > 0 ? static_cast<unsigned>(n_threads)
                                 : std::thread::hardware_concurrency();
    lh::require_memory(lh::kRoom + lh::kThreadRoom * n);
    const lh::LogMark mark;
    if (llama_model_quantize(path, out_path, &params) != 0) {
      throw lh::Error(LH_MODEL_ERROR, "cannot requantize \"" + std::string(path) +
                                          "\": " + mark.last_error());
    }
  });
}

int32_t lh_comparison_new(const lh_model* base, const lh_model* other, int32_t n_threads,
                          lh_comparison** out, lh_error* error) {
  return guard(error, [&] {
    deref(out, "out") = nullptr;
    *out = std::make_unique<lh_comparison>(deref(base, "base"), deref(other, "other"),
                                           n_threads)
               .release();
  });
}

void lh_comparison_free(lh_comparison* comparison) { lh::free_unless_forked(comparison); }

int32_t lh_comparison_add(lh_comparison* comparison, const int32_t* tokens,
                          int32_t n_tokens, lh_error* error) {
  return guard(error, [&] {
    deref(comparison, "comparison").add(&deref(tokens, "tokens"), n_tokens);
  });
}

void lh_comparison_abort(lh_comparison* comparison, int32_t abort) {
  if (comparison != nullptr) comparison->abort(abort != 0);
}

int32_t lh_comparison_get(const lh_comparison* comparison, lh_comparison_result* out,
                          lh_error* error) {
  return guard(error,
               [&] { deref(out, "out") = deref(comparison, "comparison").result(); });
}

// ---- embeddings -------------------------------------------------------------------

void lh_embedder_default_params(lh_embedder_params* params) {
  lh::set_defaults(params, [](lh_embedder_params& p) {
    p.pooling = LH_POOLING_MEAN;
    p.normalize = 1;
    p.n_batch = 512;
    p.n_ctx = 512;
    p.n_seq_max = 1;
  });
}

int32_t lh_embedder_new(const lh_model* model, const lh_embedder_params* params,
                        lh_embedder** out, lh_error* error) {
  return guard(error, [&] {
    deref(out, "out") = nullptr;
    *out = std::make_unique<lh_embedder>(deref(model, "model"),
                                         lh::deref_sized(params, "params"))
               .release();
  });
}

void lh_embedder_free(lh_embedder* embedder) { lh::free_unless_forked(embedder); }

int32_t lh_embedder_run(lh_embedder* embedder, const int32_t* tokens,
                        const int64_t* offsets, int32_t n_texts, float* out,
                        lh_error* error) {
  return guard(error, [&] {
    deref(embedder, "embedder")
        .run(&deref(tokens, "tokens"), &deref(offsets, "offsets"), n_texts,
             &deref(out, "out"));
  });
}

void lh_embedder_abort(lh_embedder* embedder, int32_t abort) {
  if (embedder != nullptr) embedder->abort(abort != 0);
}
