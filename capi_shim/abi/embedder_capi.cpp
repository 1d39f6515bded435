// extern "C" functions of llamaherd.h for embeddings.
#include <memory>

#include "embedder.hpp"
#include "guard.hpp"
#include "struct_size.hpp"

using lh::deref;
using lh::guard;

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
