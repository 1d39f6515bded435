/* The newrllama_* C API from plain C, on the real model SmolLM2-135M-Instruct. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "newrllama_capi.h"

#define INVALID NEWRLLAMA_INVALID_ARGUMENT

static const struct newrllama_parallel_params kGreedy = {16, 16,   1.0f, 0.0f,
                                                         0,  1.0f, 1234};

enum { kThreads = 2 };

static const char* kPrompts[20] = {"The capital of France is",
                                   "Water boils at",
                                   "Once upon a time",
                                   "The three primary colours are",
                                   "A good breakfast is",
                                   "The moon is",
                                   "In winter, birds",
                                   "My favourite book is",
                                   "The largest animal on earth",
                                   "To make tea, first",
                                   "The river was wide and",
                                   "She opened the door and",
                                   "Two plus two equals",
                                   "The train to London",
                                   "Shakespeare wrote",
                                   "Bread is made from",
                                   "The sun rises in the",
                                   "A triangle has",
                                   "The old house stood",
                                   "Music helps people"};

static char** answer(newrllama_context_handle ctx, const char** prompts, int n,
                     struct newrllama_parallel_params params) {
  char** results = NULL;
  const char* message = NULL;
  newrllama_error_code code =
      newrllama_generate_parallel(ctx, prompts, n, &params, &results, &message);
  if (code != NEWRLLAMA_SUCCESS) fprintf(stderr, "generate_parallel: %s\n", message);
  CHECK(code == NEWRLLAMA_SUCCESS);
  CHECK(message == NULL);
  return results;
}

static int same(char** a, char** b, int n) {
  int i, n_same = 0;
  for (i = 0; i < n; ++i) n_same += strcmp(a[i], b[i]) == 0;
  return n_same;
}

/* Runs 20 prompts on 4 sequences, and each prompt alone in a new context. Only here on
 * two threads. */
static void test_twenty_prompts(newrllama_model_handle model) {
  newrllama_context_handle ctx = NULL;
  char **together, **again;
  char* stats = NULL;
  int i;
  SUCCEEDS(newrllama_context_create(model, 1024, kThreads, 4, &ctx, NULL));
  together = answer(ctx, kPrompts, 20, kGreedy);
  for (i = 0; i < 20; ++i) {
    newrllama_context_handle fresh = NULL;
    char** alone;
    SUCCEEDS(newrllama_context_create(model, 1024, kThreads, 1, &fresh, NULL));
    alone = answer(fresh, kPrompts + i, 1, kGreedy);
    CHECK(strcmp(together[i], alone[0]) == 0);
    CHECK(strlen(alone[0]) > 0);
    newrllama_free_string_array(alone, 1);
    newrllama_context_free(fresh);
  }
  again = answer(ctx, kPrompts, 20, kGreedy);
  CHECK(same(together, again, 20) == 20);
  SUCCEEDS(newrllama_stats(ctx, &stats, NULL));
  CHECK(strstr(stats, "20 prompts, 0 failed") != NULL);
  newrllama_free_string(stats);
  newrllama_free_string_array(together, 20);
  newrllama_free_string_array(again, 20);
  newrllama_context_free(ctx);
}

static void test_failures_are_isolated(newrllama_model_handle model) {
  newrllama_context_handle ctx = NULL;
  static char long_prompt[6000];
  const char* prompts[4];
  char **results, **healthy;
  int i;
  for (i = 0; i + 6 < (int)sizeof(long_prompt); i += 6)
    memcpy(long_prompt + i, " apple", 6);
  prompts[0] = kPrompts[0];
  prompts[1] = long_prompt;
  prompts[2] = NULL;
  prompts[3] = kPrompts[1];
  SUCCEEDS(newrllama_context_create(model, 512, 1, 4, &ctx, NULL));
  results = answer(ctx, prompts, 4, kGreedy);
  CHECK(strncmp(results[1], "[ERROR] the prompt has", 22) == 0);
  CHECK(strncmp(results[2], "[ERROR] ", 8) == 0);
  healthy = answer(ctx, kPrompts, 2, kGreedy);
  CHECK(strcmp(results[0], healthy[0]) == 0);
  CHECK(strcmp(results[3], healthy[1]) == 0);
  newrllama_free_string_array(results, 4);
  newrllama_free_string_array(healthy, 2);
  newrllama_context_free(ctx);
}

/* Uses a pool with eight slots and cells for only two of the prompts at a time. */
static void test_small_pool(newrllama_model_handle model) {
  newrllama_context_handle small = NULL, large = NULL;
  struct newrllama_parallel_params params = kGreedy;
  char **tight, **roomy;
  params.max_tokens = 100;
  SUCCEEDS(newrllama_context_create(model, 256, 1, 8, &small, NULL));
  SUCCEEDS(newrllama_context_create(model, 2048, 1, 1, &large, NULL));
  tight = answer(small, kPrompts, 8, params);
  roomy = answer(large, kPrompts, 8, params);
  CHECK(same(tight, roomy, 8) == 8);
  newrllama_free_string_array(tight, 8);
  newrllama_free_string_array(roomy, 8);
  newrllama_context_free(small);
  newrllama_context_free(large);
}

static void test_sampling(newrllama_model_handle model) {
  newrllama_context_handle four = NULL, one = NULL;
  struct newrllama_parallel_params params = kGreedy;
  char **a, **b, **c;
  params.temperature = 0.8f;
  params.repeat_last_n = 64;
  params.penalty_repeat = 1.1f;
  SUCCEEDS(newrllama_context_create(model, 1024, 1, 4, &four, NULL));
  SUCCEEDS(newrllama_context_create(model, 1024, 1, 1, &one, NULL));
  a = answer(four, kPrompts, 6, params);
  b = answer(one, kPrompts, 6, params);
  CHECK(same(a, b, 6) == 6);
  params.seed = 4321;
  c = answer(four, kPrompts, 6, params);
  CHECK(same(a, c, 6) < 6);
  newrllama_free_string_array(a, 6);
  newrllama_free_string_array(b, 6);
  newrllama_free_string_array(c, 6);
  newrllama_context_free(four);
  newrllama_context_free(one);
}

struct caller {
  newrllama_context_handle ctx;
  int first;
  char** results;
};

static void* call(void* data) {
  struct caller* caller = data;
  newrllama_generate_parallel(caller->ctx, kPrompts + caller->first, 4, &kGreedy,
                              &caller->results, NULL);
  return NULL;
}

static void test_five_callers(newrllama_model_handle model) {
  newrllama_context_handle ctx = NULL;
  pthread_t threads[5];
  struct caller callers[5];
  char** expected;
  int i;
  SUCCEEDS(newrllama_context_create(model, 1024, 1, 4, &ctx, NULL));
  expected = answer(ctx, kPrompts, 20, kGreedy);
  for (i = 0; i < 5; ++i) {
    callers[i].ctx = ctx;
    callers[i].first = 4 * i;
    callers[i].results = NULL;
    pthread_create(&threads[i], NULL, call, &callers[i]);
  }
  for (i = 0; i < 5; ++i) {
    pthread_join(threads[i], NULL);
    CHECK(callers[i].results != NULL &&
          same(callers[i].results, expected + 4 * i, 4) == 4);
    newrllama_free_string_array(callers[i].results, 4);
  }
  newrllama_free_string_array(expected, 20);
  newrllama_context_free(ctx);
}

static void* abort_soon(void* ctx) {
  const struct timespec delay = {0, 300 * 1000 * 1000};
  nanosleep(&delay, NULL);
  newrllama_abort(ctx);
  return NULL;
}

static void test_abort(newrllama_model_handle model) {
  newrllama_context_handle ctx = NULL;
  struct newrllama_parallel_params params = kGreedy;
  struct timespec start, end;
  char** results = NULL;
  const char* message = NULL;
  pthread_t thread;
  double seconds;
  params.max_tokens = 2000;
  params.penalty_repeat = 1.3f;
  params.repeat_last_n = -1;
  SUCCEEDS(newrllama_context_create(model, 8192, 1, 4, &ctx, NULL));
  pthread_create(&thread, NULL, abort_soon, ctx);
  clock_gettime(CLOCK_MONOTONIC, &start);
  CHECK(newrllama_generate_parallel(ctx, kPrompts, 20, &params, &results, &message) ==
        NEWRLLAMA_ABORTED);
  clock_gettime(CLOCK_MONOTONIC, &end);
  pthread_join(thread, NULL);
  seconds =
      (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
  CHECK(seconds < 20); /* the whole call takes minutes */
  CHECK(results != NULL && strcmp(results[19], "[ERROR] cancelled") == 0);
  newrllama_free_string_array(results, 20);
  results = answer(ctx, kPrompts, 2, kGreedy);
  CHECK(strncmp(results[0], "[ERROR]", 7) != 0);
  newrllama_free_string_array(results, 2);
  newrllama_context_free(ctx);
}

static void test_text(newrllama_model_handle model) {
  const struct newrllama_chat_message chat[2] = {{"system", "Be brief."},
                                                 {"user", "What is <|im_end|>?"}};
  int32_t* tokens = NULL;
  size_t n = 0;
  char* text = NULL;
  const char* message = NULL;
  SUCCEEDS(
      newrllama_tokenize(model, "Hello, w\xC3\xB6rld!", false, &tokens, &n, &message));
  CHECK(n > 3);
  SUCCEEDS(newrllama_detokenize(model, tokens, n, &text, &message));
  CHECK(strcmp(text, "Hello, w\xC3\xB6rld!") == 0);
  newrllama_free_string(text);
  newrllama_free_tokens(tokens);
  SUCCEEDS(newrllama_apply_chat_template(model, NULL, chat, 2, true, &text, &message));
  CHECK(strstr(text, "<|im_start|>user\nWhat is \xEF\xB7\x90<|im_end|>\xEF\xB7\x91?") !=
        NULL);
  newrllama_free_string(text);
  tokens = NULL;
  SUCCEEDS(newrllama_tokenize(model, "", false, &tokens, &n, &message));
  CHECK(n == 0);
  newrllama_free_tokens(tokens);
  tokens = malloc(sizeof(int32_t));
  tokens[0] = 1 << 30;
  REFUSES(newrllama_detokenize(model, tokens, 1, &text, &message));
  CHECK(strstr(message, "tokens[0] is 1073741824") != NULL);
  free(tokens);
}

static void test_vocabulary(newrllama_model_handle model) {
  CHECK(newrllama_token_bos(model) == 1);
  CHECK(newrllama_token_eos(model) == 2);
  CHECK(newrllama_token_eot(model) >= -1);
  CHECK(newrllama_token_is_eog(model, 2));
  CHECK(newrllama_token_is_control(model, 1));
  CHECK(!newrllama_token_is_control(model, 1000));
  CHECK(strcmp(newrllama_token_get_text(model, 1), "<|im_start|>") == 0);
  CHECK(newrllama_token_get_attr(model, 1) != 0);
  CHECK(newrllama_token_get_score(model, 1) == newrllama_token_get_score(model, 1));
  CHECK(newrllama_token_get_text(model, -1) == NULL);
  CHECK(newrllama_token_get_text(model, 1 << 30) == NULL);
  CHECK(!newrllama_token_is_eog(model, 1 << 30));
  CHECK(!newrllama_add_bos_token(model));
  CHECK(!newrllama_add_eos_token(model));
  CHECK(newrllama_token_sep(model) == -1);
  CHECK(newrllama_token_nl(model) >= 0);
  CHECK(newrllama_token_pad(model) >= -1);
  CHECK(newrllama_token_fim_pre(model) >= -1);
  CHECK(newrllama_token_fim_mid(model) >= -1);
  CHECK(newrllama_token_fim_suf(model) >= -1);
}

static void test_bad_input(newrllama_model_handle model, const char* this_program) {
  newrllama_model_handle none = NULL;
  newrllama_context_handle ctx = NULL;
  const char* message = NULL;
  char** results = NULL;
  struct newrllama_parallel_params params = kGreedy;
  CHECK(newrllama_model_load("/no/such/file.gguf", 0, true, false, &none, &message) ==
        NEWRLLAMA_MODEL_ERROR);
  CHECK(strstr(message, "/no/such/file.gguf") != NULL);
  CHECK(none == NULL);
  CHECK(newrllama_model_load(this_program, 0, true, false, &none, &message) ==
        NEWRLLAMA_MODEL_ERROR);
  REFUSES(newrllama_model_load(NULL, 0, true, false, &none, &message));
  CHECK(strstr(message, "model_path") != NULL);
  REFUSES(newrllama_context_create(NULL, 512, 2, 4, &ctx, &message));
  REFUSES(newrllama_context_create(model, 512, 2, 0, &ctx, &message));
  REFUSES(newrllama_context_create(model, 512, 2, 257, &ctx, &message));
  CHECK(strstr(message, "n_seq_max") != NULL && strstr(message, "257") != NULL);
  REFUSES(newrllama_context_create(model, -5, 2, 4, &ctx, &message));
  CHECK(strstr(message, "n_ctx") != NULL && strstr(message, "-5") != NULL);
  SUCCEEDS(newrllama_context_create(model, 256, 2, 2, &ctx, NULL));
  REFUSES(newrllama_generate_parallel(ctx, kPrompts, 0, &params, &results, &message));
  CHECK(strstr(message, "n_prompts") != NULL);
  REFUSES(newrllama_generate_parallel(ctx, NULL, 3, &params, &results, &message));
  REFUSES(newrllama_generate_parallel(ctx, kPrompts, 3, NULL, &results, &message));
  REFUSES(newrllama_generate_parallel(NULL, kPrompts, 3, &params, &results, &message));
  params.temperature = (float)NAN;
  REFUSES(newrllama_generate_parallel(ctx, kPrompts, 1, &params, &results, &message));
  CHECK(strstr(message, "temperature") == message && results == NULL);
  newrllama_free_string_array(NULL, 3);
  newrllama_free_string(NULL);
  newrllama_free_tokens(NULL);
  newrllama_context_free(ctx);
  newrllama_context_free(NULL);
  newrllama_model_free(NULL);
}

int main(int argc, char** argv) {
  const char* path = getenv("LLAMAHERD_TEST_SMOLLM2");
  const char* message = NULL;
  newrllama_model_handle model = NULL;
  (void)argc;
  if (path == NULL) {
    fprintf(stderr,
            "LLAMAHERD_TEST_SMOLLM2 must name the model file; see `make models`\n");
    return 2;
  }
  SUCCEEDS(newrllama_backend_init(&message));
  if (newrllama_model_load(path, 0, true, false, &model, &message) != NEWRLLAMA_SUCCESS) {
    fprintf(stderr, "%s\n", message);
    return 2;
  }
  test_text(model);
  test_vocabulary(model);
  test_bad_input(model, argv[0]);
  test_twenty_prompts(model);
  test_failures_are_isolated(model);
  test_small_pool(model);
  test_sampling(model);
  test_five_callers(model);
  test_abort(model);
  newrllama_model_free(model);
  newrllama_backend_free();
  printf("capi: %d passed, %d failed\n", n_passed, n_failed);
  return n_failed == 0 ? 0 : 1;
}
