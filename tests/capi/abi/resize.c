/* Checks that answers of SmolLM2-135M-Instruct equal the answers to single requests to
 * the last bit. Between runs, the KV cache is resized during a pause, or other requests
 * are ended. Answers are drawn at a high temperature, so that small differences
 * of logits soon result in another text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "llamaherd.h"

#define INVALID LH_INVALID_ARGUMENT

enum { kMost = 64, kLength = 30, kPrompts = 4, kStreams = 8 };

static const char* const kTexts[kPrompts] = {
    "The capital of France is Paris, and",
    "Once upon a time there was a herd of llamas that", "Rain",
    "To bake a loaf of bread you need flour, water, salt and"};

static lh_error error;
static int32_t alone[kPrompts][kLength]; /* tokens with logits independent of others */

static int32_t check_ok(int32_t status) {
  if (status != LH_OK) fprintf(stderr, "%s\n", error.message);
  return status == LH_OK;
}

static lh_engine_params engine_params(int32_t unified, int32_t n_ctx_seq,
                                      int32_t n_seq_max, int32_t deterministic) {
  lh_engine_params params;
  lh_engine_default_params(&params);
  params.n_ctx = n_ctx_seq * n_seq_max;
  params.n_seq_max = n_seq_max;
  params.kv_unified = unified;
  params.n_threads = 1;
  params.n_threads_batch = 1;
  params.flash_attn = 1;
  if (deterministic) {
    params.deterministic = 1;
    params.type_v = 30; /* bf16 */
  }
  return params;
}

static void submit(lh_engine* engine, const lh_model* model, int64_t id) {
  int32_t tokens[kMost];
  lh_sampling_params sampling;
  lh_request request;
  const char* text = kTexts[id];
  lh_sampling_default_params(&sampling);
  sampling.temperature = 1.5f;
  sampling.seed = (uint32_t)id;
  sampling.ignore_eos = 1;
  lh_request_default_params(&request);
  request.id = id;
  request.tokens = tokens;
  request.max_tokens = kLength;
  request.sampling = &sampling;
  SUCCEEDS(lh_tokenize_prompt(model, text, (int32_t)strlen(text), -1, tokens, kMost,
                              &request.n_tokens, &error));
  CHECK(check_ok(lh_engine_submit(engine, &request, &error)));
}

static void run(lh_engine* engine, int32_t max_steps) {
  lh_run_params params;
  lh_run_result result;
  int64_t events[kMost];
  int32_t n_left = max_steps;
  lh_run_default_params(&params);
  do {
    params.max_steps = n_left;
    CHECK(check_ok(lh_engine_run(engine, &params, events, kMost, &result, &error)));
    n_left -= result.n_steps;
  } while (result.n_active > 0 && (max_steps == 0 || n_left > 0));
}

static int is_as_alone(lh_engine* engine, int64_t id) {
  lh_client_info info;
  CHECK(check_ok(lh_client_get(engine, id, &info, &error)));
  return info.state == LH_STATE_FINISHED && info.n_generated == kLength &&
         memcmp(info.tokens, alone[id], sizeof(alone[id])) == 0;
}

static void answer_alone(lh_model* model, const lh_engine_params* params) {
  lh_engine* engine = NULL;
  lh_client_info info;
  int64_t id;
  CHECK(check_ok(lh_engine_new(model, params, &engine, &error)));
  for (id = 0; id < kPrompts; ++id) {
    submit(engine, model, id);
    run(engine, 0);
    SUCCEEDS(lh_client_get(engine, id, &info, &error));
    CHECK(info.n_generated == kLength);
    memcpy(alone[id], info.tokens, sizeof(alone[id]));
    SUCCEEDS(lh_client_release(engine, id, &error));
  }
  lh_engine_free(engine);
}

/* All requests are paused halfway and continue with other sizes. */
static void test_resize(lh_model* model, const lh_engine_params* before,
                        const lh_engine_params* after, int32_t keeps) {
  lh_engine* engine = NULL;
  lh_engine_info info;
  lh_client_info client;
  lh_stats stats;
  int64_t n_prefill, id;
  CHECK(check_ok(lh_engine_new(model, before, &engine, &error)));
  for (id = 0; id < kPrompts; ++id) submit(engine, model, id);
  run(engine, 15);
  REFUSES(lh_engine_resize(engine, after, &error));
  CHECK(strstr(error.message, "4 are running") != NULL);
  for (id = 0; id < kPrompts; ++id) SUCCEEDS(lh_client_pause(engine, id, &error));
  CHECK(check_ok(lh_engine_resize(engine, after, &error)));
  SUCCEEDS(lh_engine_get_info(engine, &info, &error));
  CHECK(info.n_ctx >= after->n_ctx && info.n_seq_max == after->n_seq_max);
  CHECK(info.n_cells_used == 0 && info.n_seq_used == 0);
  SUCCEEDS(lh_engine_get_stats(engine, -1, &stats, &error));
  n_prefill = stats.n_prefill;
  for (id = 0; id < kPrompts; ++id) {
    CHECK(check_ok(lh_client_resume(engine, id, &error)));
  }
  run(engine, 0);
  SUCCEEDS(lh_engine_get_stats(engine, -1, &stats, &error));
  CHECK((stats.n_prefill == n_prefill) == keeps);
  for (id = 0; id < kPrompts; ++id) {
    SUCCEEDS(lh_client_get(engine, id, &client, &error));
    CHECK(client.state == LH_STATE_FINISHED && client.n_generated == kLength);
    if (before->deterministic) CHECK(is_as_alone(engine, id));
  }
  lh_engine_free(engine);
}

/* Half of the requests are ended at different times. */
static void test_cancel(lh_model* model, const lh_engine_params* params) {
  lh_engine* engine = NULL;
  int64_t id;
  uint32_t round;
  CHECK(check_ok(lh_engine_new(model, params, &engine, &error)));
  for (round = 0; round < 4; ++round) {
    for (id = 0; id < kPrompts; ++id) submit(engine, model, id);
    for (id = round % 2; id < kPrompts; id += 2) {
      run(engine, 1 + (int32_t)(lh_derive_seed(round, (uint64_t)id) % 8));
      CHECK(check_ok(lh_client_end(engine, id, LH_FINISH_CANCELLED, NULL, &error)));
    }
    run(engine, 0);
    for (id = 1 - round % 2; id < kPrompts; id += 2) {
      CHECK(is_as_alone(engine, id));
    }
    SUCCEEDS(lh_engine_reset(engine, &error));
  }
  lh_engine_free(engine);
}

/* If the new context cannot be created (here: quantized values without flash attention),
 * the engine does not change. */
static void test_failure(lh_model* model) {
  const lh_engine_params params = engine_params(0, 256, kStreams, 0);
  lh_engine_params bad = params;
  lh_engine* engine = NULL;
  lh_engine_info info;
  bad.flash_attn = 0;
  bad.type_v = 8;
  CHECK(check_ok(lh_engine_new(model, &params, &engine, &error)));
  submit(engine, model, 0);
  run(engine, 5);
  SUCCEEDS(lh_client_pause(engine, 0, &error));
  CHECK(lh_engine_resize(engine, &bad, &error) == LH_CONTEXT_ERROR);
  REFUSES(lh_engine_resize(engine, NULL, &error));
  REFUSES(lh_engine_resize(NULL, &params, &error));
  SUCCEEDS(lh_engine_get_info(engine, &info, &error));
  CHECK(info.n_ctx == params.n_ctx && info.n_seq_max == kStreams);
  CHECK(check_ok(lh_client_resume(engine, 0, &error)));
  run(engine, 0);
  lh_engine_free(engine);
}

int main(void) {
  const char* path = getenv("LLAMAHERD_TEST_SMOLLM2");
  const lh_engine_params fixed = engine_params(0, 256, kStreams, 1);
  const lh_engine_params longer = engine_params(0, 512, kStreams, 1);
  const lh_engine_params more = engine_params(0, 256, 3 * kStreams, 1);
  const lh_engine_params streams = engine_params(0, 256, kStreams, 0);
  const lh_engine_params pool = engine_params(1, 256, kStreams, 0);
  const lh_engine_params larger_pool = engine_params(1, 512, 2 * kStreams, 0);
  lh_model_params params;
  lh_model* model = NULL;
  if (path == NULL) {
    fprintf(stderr,
            "LLAMAHERD_TEST_SMOLLM2 must name the model file; see `make models`\n");
    return 2;
  }
  lh_backend_init(0);
  lh_model_default_params(&params);
  if (lh_model_load(path, &params, &model, &error) != LH_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 2;
  }
  answer_alone(model, &fixed);
  test_resize(model, &fixed, &longer, 1);
  test_resize(model, &fixed, &more, 0);
  test_resize(model, &more, &fixed, 0);
  test_resize(model, &pool, &larger_pool, 1);
  test_resize(model, &larger_pool, &pool, 1);
  test_resize(model, &pool, &streams, 0);
  test_resize(model, &streams, &pool, 0);
  test_cancel(model, &fixed);
  test_failure(model);
  lh_model_free(model);
  lh_backend_free();
  printf("resize: %d passed, %d failed\n", n_passed, n_failed);
  return n_failed == 0 ? 0 : 1;
}
