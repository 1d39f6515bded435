/* Tests requantizing and comparing by llamaherd.h, on the real model
 * SmolLM2-135M-Instruct. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "llamaherd.h"

#define INVALID LH_INVALID_ARGUMENT

enum { kQ8_0 = 7, kNoType = 5000, kTokens = 100 };

static lh_model* load(const char* path) {
  lh_model_params params;
  lh_model* model = NULL;
  lh_error error;
  lh_model_default_params(&params);
  if (lh_model_load(path, &params, &model, &error) != LH_OK) {
    fprintf(stderr, "%s\n", error.message);
    exit(2);
  }
  return model;
}

static void make_tokens(const lh_model* model, int32_t* tokens) {
  const char* text =
      "The river rises in the hills, and on its way to the sea it turns nine mills.";
  int32_t n = 0;
  SUCCEEDS(
      lh_tokenize(model, text, (int32_t)strlen(text), 0, 0, tokens, kTokens, &n, NULL));
  for (int32_t i = n; i < kTokens; ++i) tokens[i] = tokens[i - n];
}

static lh_comparison_result compare(const lh_model* base, const lh_model* other) {
  int32_t tokens[kTokens];
  lh_comparison* comparison = NULL;
  lh_comparison_result result;
  make_tokens(base, tokens);
  memset(&result, 0, sizeof(result));
  SUCCEEDS(lh_comparison_new(base, other, 2, &comparison, NULL));
  REFUSES(lh_comparison_get(comparison, &result, NULL));
  SUCCEEDS(lh_comparison_add(comparison, tokens, kTokens, NULL));
  SUCCEEDS(lh_comparison_get(comparison, &result, NULL));
  CHECK(result.n_tokens == kTokens / 2);
  /* Each chunk is computed separately: the same chunk again changes no average. */
  lh_comparison_result again;
  SUCCEEDS(lh_comparison_add(comparison, tokens, kTokens, NULL));
  SUCCEEDS(lh_comparison_get(comparison, &again, NULL));
  CHECK(again.n_tokens == kTokens);
  CHECK(fabs(again.mean_kl - result.mean_kl) < 1e-9);
  CHECK(fabs(again.base_perplexity - result.base_perplexity) < 1e-6);
  lh_comparison_free(comparison);
  return result;
}

static void test_itself(const lh_model* model) {
  const lh_comparison_result result = compare(model, model);
  CHECK(result.mean_kl == 0 && result.p99_kl == 0 && result.max_kl == 0);
  CHECK(result.same_top == 1);
  CHECK(result.base_perplexity == result.other_perplexity);
  CHECK(result.base_perplexity > 1 && result.base_perplexity < 1000);
}

static void test_requantized(const lh_model* model, const char* path, const char* out) {
  SUCCEEDS(lh_model_quantize(path, out, kQ8_0, 2, NULL));
  lh_model* other = load(out);
  CHECK(remove(out) == 0);
  const lh_comparison_result result = compare(model, other);
  CHECK(result.mean_kl > 0 && result.mean_kl < 0.02);
  CHECK(result.p99_kl >= result.mean_kl && result.max_kl >= result.p99_kl);
  CHECK(result.same_top > 0.9);
  lh_model_free(other);
}

static void test_bad_arguments(const lh_model* model, const char* path, const char* out) {
  int32_t tokens[kTokens] = {0};
  lh_comparison* comparison = NULL;
  lh_error error;
  REFUSES(lh_model_quantize(path, path, kQ8_0, 2, &error));
  REFUSES(lh_model_quantize(NULL, out, kQ8_0, 2, &error));
  REFUSES(lh_model_quantize(path, out, kNoType, 2, &error));
  CHECK(strstr(error.message, "5000") != NULL);
  CHECK(lh_model_quantize("no/such.gguf", out, kQ8_0, 2, &error) == LH_MODEL_ERROR);
  CHECK(strstr(error.message, "no/such.gguf") != NULL);
  CHECK(lh_model_quantize(path, "no/such/out.gguf", kQ8_0, 2, &error) == LH_MODEL_ERROR);
  REFUSES(lh_comparison_new(model, NULL, 2, &comparison, &error));
  REFUSES(lh_comparison_new(model, model, 2, NULL, &error));
  SUCCEEDS(lh_comparison_new(model, model, 2, &comparison, &error));
  REFUSES(lh_comparison_add(comparison, tokens, 1, &error));
  REFUSES(lh_comparison_add(comparison, tokens, 257, &error));
  REFUSES(lh_comparison_add(comparison, NULL, 2, &error));
  tokens[1] = -1;
  REFUSES(lh_comparison_add(comparison, tokens, 3, &error));
  CHECK(strstr(error.message, "tokens[1] is -1") != NULL);
  tokens[1] = 0;
  lh_comparison_abort(comparison, 1);
  CHECK(lh_comparison_add(comparison, tokens, 3, &error) == LH_ABORTED);
  lh_comparison_abort(comparison, 0);
  SUCCEEDS(lh_comparison_add(comparison, tokens, 3, &error));
  lh_comparison_free(comparison);
  lh_comparison_free(NULL);
  lh_comparison_abort(NULL, 1);
}

int main(int argc, char** argv) {
  const char* path = getenv("LLAMAHERD_TEST_SMOLLM2");
  char out[4096];
  (void)argc;
  if (path == NULL) {
    fprintf(stderr,
            "LLAMAHERD_TEST_SMOLLM2 must name the model file; see `make models`\n");
    return 2;
  }
  snprintf(out, sizeof(out), "%s.gguf", argv[0]);
  lh_backend_init(0);
  lh_model* model = load(path);
  test_itself(model);
  test_requantized(model, path, out);
  test_bad_arguments(model, path, out);
  lh_model_free(model);
  lh_backend_free();
  printf("optimize: %d passed, %d failed\n", n_passed, n_failed);
  return n_failed == 0 ? 0 : 1;
}
