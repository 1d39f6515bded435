// extern "C" functions of llamaherd.h that make vectors of texts.
#include <memory>

#include "embedder.hpp"
#include "guard.hpp"

using lh::deref;
using lh::guard;

int32_t lh_embedder_new(const lh_model* model, const lh_embedder_params* params,
                        lh_embedder** out, lh_error* error) {
  return guard(error, [&] {
    deref(out, "out") = nullptr;
    *out = std::make_unique<lh_embedder>(deref(model, "model"), deref(params, "params"))
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
