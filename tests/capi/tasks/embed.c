/* Tests vectors of texts by llamaherd.h, on two real models: all-MiniLM-L6-v2, an
 * encoder, and SmolLM2-135M-Instruct, a decoder. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "gpu.h"
#include "llamaherd.h"

#define INVALID LH_INVALID_ARGUMENT

enum { kTexts = 4, kMostTokens = 1024, kMostEmbd = 1024 };

static const char* const kText[kTexts] = {
    "A cat sleeps on the sofa.", "On the couch a cat is sleeping.",
    "The central bank raised its interest rate by a quarter of a point.", "Rivers."};

static int32_t tokens[kMostTokens];
static int64_t offsets[kTexts + 1];
static float vectors[kTexts * kMostEmbd];
static lh_error error;

static lh_model* load(const char* path) {
  lh_model_params params;
  lh_model* model = NULL;
  lh_model_default_params(&params);
  params.n_gpu_layers = gpu_layers();
  if (lh_model_load(path, &params, &model, &error) != LH_OK) {
    fprintf(stderr, "%s\n", error.message);
    exit(2);
  }
  return model;
}

static void make_tokens(const lh_model* model) {
  for (int32_t i = 0; i < kTexts; ++i) {
    int32_t n = 0;
    const int32_t begin = (int32_t)offsets[i];
    SUCCEEDS(lh_tokenize(model, kText[i], (int32_t)strlen(kText[i]), 1, 0, tokens + begin,
                         kMostTokens - begin, &n, NULL));
    offsets[i + 1] = offsets[i] + n;
  }
}

static double dot(const float* a, const float* b, int32_t n) {
  double sum = 0;
  for (int32_t i = 0; i < n; ++i) sum += (double)a[i] * (double)b[i];
  return sum;
}

static lh_embedder* make(const lh_model* model, int32_t pooling, int32_t n_batch) {
  const lh_embedder_params params = {sizeof(params), pooling, 1, n_batch, 128, kTexts, 2};
  lh_embedder* embedder = NULL;
  if (lh_embedder_new(model, &params, &embedder, &error) != LH_OK) {
    fprintf(stderr, "lh_embedder_new: %s\n", error.message);
    exit(2);
  }
  return embedder;
}

/* Computes texts together, and each alone. For decoders, texts are divided into batches
 * of n_batch tokens. */
static void test_vectors(const lh_model* model, int32_t pooling, int32_t n_batch) {
  lh_model_info info;
  SUCCEEDS(lh_model_get_info(model, &info, &error));
  const int32_t n = info.n_embd_out;
  lh_embedder* embedder = make(model, pooling, n_batch);
  SUCCEEDS(lh_embedder_run(embedder, tokens, offsets, kTexts, vectors, &error));
  for (int32_t i = 0; i < kTexts; ++i) {
    CHECK(fabs(dot(vectors + i * n, vectors + i * n, n) - 1) < 1e-4);
    const int64_t bounds[2] = {0, offsets[i + 1] - offsets[i]};
    float alone[kMostEmbd];
    SUCCEEDS(lh_embedder_run(embedder, tokens + offsets[i], bounds, 1, alone, &error));
    CHECK(dot(vectors + i * n, alone, n) > 0.999);
  }
  if (pooling == LH_POOLING_MEAN) {
    CHECK(dot(vectors, vectors + n, n) > dot(vectors, vectors + 2 * n, n));
  }
  lh_embedder_free(embedder);
}

static void test_bad_arguments(const lh_model* model) {
  lh_embedder* embedder = NULL;
  lh_embedder_params params = {sizeof(params), LH_POOLING_MEAN, 1, 128, 128, kTexts, 2};
  REFUSES(lh_embedder_new(NULL, &params, &embedder, &error));
  REFUSES(lh_embedder_new(model, &params, NULL, &error));
  params.pooling = 4;
  REFUSES(lh_embedder_new(model, &params, &embedder, &error));
  CHECK(embedder == NULL);
  embedder = make(model, LH_POOLING_MEAN, 128);
  REFUSES(lh_embedder_run(embedder, NULL, offsets, 1, vectors, &error));
  REFUSES(lh_embedder_run(embedder, tokens, offsets, kTexts + 1, vectors, &error));
  const int64_t empty[2] = {0, 0};
  REFUSES(lh_embedder_run(embedder, tokens, empty, 1, vectors, &error));
  CHECK(strstr(error.message, "text 0 must have 1 to") != NULL);
  const int64_t many[2] = {0, 129};
  REFUSES(lh_embedder_run(embedder, tokens, many, 1, vectors, &error));
  const int32_t unknown[1] = {1 << 24};
  const int64_t one[2] = {0, 1};
  REFUSES(lh_embedder_run(embedder, unknown, one, 1, vectors, &error));
  CHECK(strstr(error.message, "not in the vocabulary") != NULL);
  /* The embedder still works after all errors. After an abort it fails until the abort is
   * revoked. */
  SUCCEEDS(lh_embedder_run(embedder, tokens, offsets, 1, vectors, &error));
  lh_embedder_abort(embedder, 1);
  CHECK(lh_embedder_run(embedder, tokens, offsets, 1, vectors, &error) == LH_ABORTED);
  lh_embedder_abort(embedder, 0);
  SUCCEEDS(lh_embedder_run(embedder, tokens, offsets, 1, vectors, &error));
  lh_embedder_abort(NULL, 1);
  lh_embedder_free(embedder);
  lh_embedder_free(NULL);
}

int main(void) {
  const char* minilm = getenv("LLAMAHERD_TEST_MINILM");
  const char* smollm2 = getenv("LLAMAHERD_TEST_SMOLLM2");
  if (minilm == NULL || smollm2 == NULL) {
    fprintf(stderr,
            "LLAMAHERD_TEST_MINILM and LLAMAHERD_TEST_SMOLLM2 must name the model "
            "files; see `make models`\n");
    return 2;
  }
  const int32_t poolings[] = {LH_POOLING_MEAN, LH_POOLING_CLS, LH_POOLING_LAST};
  lh_backend_init(0);
  lh_model* model = load(minilm);
  make_tokens(model);
  for (int i = 0; i < 3; ++i) test_vectors(model, poolings[i], 128);
  test_bad_arguments(model);
  lh_model_free(model);
  model = load(smollm2);
  make_tokens(model);
  for (int i = 0; i < 3; ++i) test_vectors(model, poolings[i], 8);
  lh_model_free(model);
  lh_backend_free();
  printf("embed: %d passed, %d failed\n", n_passed, n_failed);
  return n_failed == 0 ? 0 : 1;
}
