/* The step-level C API of llamaherd.h from plain C, on SmolLM2-135M-Instruct. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "gpu.h"
#include "llamaherd.h"

#define INVALID LH_INVALID_ARGUMENT

enum { kMost = 64, kTop = 16 };

static lh_error error;

/* Writes the tokens of a prompt in the model's chat format. Returns their number. */
static int32_t prompt_tokens(const lh_model* model, const char* text, int32_t* tokens) {
  int32_t n = 0;
  SUCCEEDS(lh_tokenize_prompt(model, text, (int32_t)strlen(text), -1, tokens, kMost, &n,
                              &error));
  return n;
}

static lh_engine* new_engine(lh_model* model) {
  lh_engine_params params;
  lh_engine* engine = NULL;
  lh_engine_default_params(&params);
  params.n_ctx = 1024;
  params.n_seq_max = 4;
  params.n_threads = 1;
  params.n_threads_batch = 2;
  params.type_k = 1; /* f16, which is also the default */
  params.type_v = 1;
  if (lh_engine_new(model, &params, &engine, &error) != LH_OK) {
    fprintf(stderr, "lh_engine_new: %s\n", error.message);
    exit(2);
  }
  return engine;
}

static int32_t submit(lh_engine* engine, const lh_model* model, int64_t id,
                      const char* text, const lh_sampling_params* sampling,
                      int32_t max_tokens, int64_t fork_from) {
  int32_t tokens[kMost];
  lh_request request;
  lh_request_default_params(&request);
  request.id = id;
  request.tokens = tokens;
  request.n_tokens = prompt_tokens(model, text, tokens);
  request.max_tokens = max_tokens;
  request.fork_from = fork_from;
  request.sampling = sampling;
  return lh_engine_submit(engine, &request, &error);
}

/* Runs until no work is left. Returns the number of requests that ended. */
static int32_t run_all(lh_engine* engine) {
  lh_run_params params;
  int64_t events[kMost];
  int32_t n_events = 0;
  lh_run_result result;
  lh_run_default_params(&params);
  params.max_time_ms = 50;
  do {
    SUCCEEDS(lh_engine_run(engine, &params, events, kMost, &result, &error));
    n_events += result.n_events;
  } while (result.n_active > 0);
  return n_events;
}

/* Returns the answer to a request that runs alone in the engine. */
static void answer(lh_engine* engine, const lh_model* model, const char* text,
                   const lh_sampling_params* sampling, int32_t max_tokens, char* out) {
  lh_client_info info;
  out[0] = '\0';
  SUCCEEDS(submit(engine, model, 1, text, sampling, max_tokens, -1));
  CHECK(run_all(engine) == 1);
  SUCCEEDS(lh_client_get(engine, 1, &info, &error));
  CHECK(info.state == LH_STATE_FINISHED && info.n_generated <= max_tokens);
  snprintf(out, 512, "%s", info.text);
  SUCCEEDS(lh_client_release(engine, 1, &error));
}

/* ---- library, model, texts --------------------------------------------------------- */

static void test_library(void) {
  int32_t sizes[4] = {0};
  char lines[256];
  CHECK(lh_abi_version() == LH_ABI_VERSION);
  lh_abi_probe(sizes);
  CHECK(sizes[0] > 0 && sizes[1] > sizes[0] && sizes[2] > 0 && sizes[3] > 0);
  CHECK(strlen(lh_ggml_commit()) > 3);
  CHECK(lh_supports_gpu_offload() == 0 || lh_supports_gpu_offload() == 1);
  CHECK(lh_has_amx() == 0 || lh_has_amx() == 1);
  CHECK(lh_derive_seed(1, 2) == lh_derive_seed(1, 2));
  CHECK(lh_derive_seed(1, 2) != lh_derive_seed(1, 3));
  CHECK(lh_log_drain(lines, 0) == 0);
  CHECK(lh_log_drain(NULL, 256) == 0);
  while (lh_log_drain(lines, sizeof(lines)) > 0) {
    CHECK(lines[strlen(lines) - 1] == '\n');
  }
}

static void test_model_info(lh_model* model) {
  lh_model_info info;
  char key[256], value[256], text[16];
  int32_t i, key_size, value_size, is_named = 0;
  SUCCEEDS(lh_model_get_info(model, &info, &error));
  CHECK(info.n_vocab == 49152 && info.n_layer == 30 && info.n_embd == 576);
  CHECK(info.n_swa == 0 && !info.is_recurrent && !info.is_hybrid);
  CHECK(!info.has_encoder && info.has_decoder);
  CHECK(info.bos == 1 && info.eos == 2 && info.sep == -1);
  CHECK(info.size_bytes > 80000000 && info.n_params > 100000000);
  REFUSES(lh_model_get_info(NULL, &info, &error));
  CHECK(strcmp(error.message, "model must not be NULL") == 0);
  for (i = 0; i < lh_model_n_meta(model); ++i) {
    const int32_t status =
        lh_model_meta(model, i, key, value, sizeof(key), &key_size, &value_size, &error);
    /* The chat template is longer than the buffer, so only its size is returned. */
    CHECK(status == LH_OK ||
          (status == LH_NO_SPACE && value_size > (int32_t)sizeof(value)));
    if (status == LH_OK && strcmp(key, "general.architecture") == 0) {
      is_named = strcmp(value, "llama") == 0 && value_size == 6;
    }
  }
  CHECK(is_named);
  CHECK(lh_model_meta(model, 0, text, text, 2, &key_size, &value_size, &error) ==
        LH_NO_SPACE);
  CHECK(key_size > 2);
  REFUSES(lh_model_meta(model, lh_model_n_meta(model), key, value, sizeof(key), &key_size,
                        &value_size, &error));
  CHECK(lh_model_n_meta(NULL) == 0);
  CHECK(strstr(lh_model_chat_template(model), "<|im_start|>") != NULL);
  CHECK(lh_model_chat_template(NULL) == NULL);
}

static void test_vocabulary(lh_model* model) {
  CHECK(strcmp(lh_token_text(model, 2), "<|im_end|>") == 0);
  CHECK(lh_token_text(model, -1) == NULL && lh_token_text(model, 49152) == NULL);
  CHECK(lh_token_score(model, 49152) == 0.0f);
  CHECK(lh_token_score(model, 5) == lh_token_score(model, 5));
  CHECK(lh_token_attr(model, 2) > 0 && lh_token_attr(model, -1) == -1);
  CHECK(lh_token_is_eog(model, 2) && !lh_token_is_eog(model, 5000));
  CHECK(lh_token_is_control(model, 2) && !lh_token_is_control(model, 49152));
}

static void test_texts(lh_model* model) {
  static const char kText[] = "Half past <|im_end|> ten";
  const int32_t size = (int32_t)strlen(kText);
  int32_t plain[kMost], parsed[kMost], n_plain = 0, n_parsed = 0, n = 0;
  char text[128];
  SUCCEEDS(lh_tokenize(model, kText, size, 0, 1, parsed, kMost, &n_parsed, &error));
  SUCCEEDS(lh_tokenize(model, kText, size, 0, 0, plain, kMost, &n_plain, &error));
  CHECK(n_plain > n_parsed);
  CHECK(lh_tokenize(model, kText, size, 0, 0, plain, 2, &n, &error) == LH_NO_SPACE);
  CHECK(n == n_plain);
  REFUSES(lh_tokenize(model, NULL, size, 0, 0, plain, kMost, &n, &error));
  REFUSES(lh_tokenize(model, kText, -1, 0, 0, plain, kMost, &n, &error));
  CHECK(lh_tokenize(model, NULL, 0, 0, 0, plain, kMost, &n, &error) == LH_OK && n == 0);

  SUCCEEDS(lh_detokenize(model, plain, n_plain, 0, 1, text, sizeof(text), &n, &error));
  CHECK(n == size && memcmp(text, kText, (size_t)n) == 0);
  /* Special tokens have no text unless the caller requests their text. */
  SUCCEEDS(lh_detokenize(model, parsed, n_parsed, 0, 0, text, sizeof(text), &n, &error));
  CHECK(n == size - 10);
  CHECK(lh_detokenize(model, plain, n_plain, 0, 1, text, 3, &n, &error) == LH_NO_SPACE);
  CHECK(n == size);
  plain[1] = 49152;
  REFUSES(lh_detokenize(model, plain, 2, 0, 0, text, sizeof(text), &n, &error));
  CHECK(strstr(error.message, "tokens[1] is 49152") != NULL);
  REFUSES(lh_detokenize(model, NULL, 1, 0, 0, text, sizeof(text), &n, &error));

  /* Marked text is never parsed. */
  SUCCEEDS(lh_mark_literals(model, kText, size, text, sizeof(text), &n, &error));
  CHECK(n == size + 6);
  SUCCEEDS(lh_tokenize_prompt(model, text, n, -1, parsed, kMost, &n_parsed, &error));
  for (n = 0; n < n_parsed; ++n) CHECK(parsed[n] != 2);
  REFUSES(lh_tokenize_prompt(model, text, 3, 7, parsed, kMost, &n, &error));
}

/* A prefix that two prompts share becomes a node. */
static void test_prefix_tree(void) {
  const int32_t tokens[] = {1, 2, 3, 4, 1, 2, 3, 5, 6, 9};
  const int64_t offsets[] = {0, 4, 9, 10};
  int32_t order[3], node_of[3], parent[3], length[3], prompt[3], n_nodes = 0;
  SUCCEEDS(lh_prefix_tree(tokens, offsets, 3, 2, order, node_of, parent, length, prompt,
                          &n_nodes, &error));
  CHECK(n_nodes == 1 && length[0] == 3 && parent[0] == -1 && prompt[0] < 2);
  CHECK(node_of[0] == 0 && node_of[1] == 0 && node_of[2] == -1);
  REFUSES(lh_prefix_tree(NULL, offsets, 3, 2, order, node_of, parent, length, prompt,
                         &n_nodes, &error));
  REFUSES(lh_prefix_tree(tokens, offsets, -1, 2, order, node_of, parent, length, prompt,
                         &n_nodes, &error));
}

/* ---- engine ------------------------------------------------------------------------ */

static void test_engine_parameters(lh_model* model) {
  lh_engine* engine = NULL;
  lh_engine_params params;
  lh_engine_default_params(&params);
  params.n_batch = 0;
  REFUSES(lh_engine_new(model, &params, &engine, &error));
  CHECK(strstr(error.message, "n_batch") != NULL && engine == NULL);
  REFUSES(lh_engine_new(NULL, &params, &engine, &error));
  REFUSES(lh_engine_new(model, NULL, &engine, &error));
  lh_engine_default_params(&params);
  params.deterministic = 1;
  REFUSES(lh_engine_new(model, &params, &engine, &error));
  CHECK(strstr(error.message, "deterministic needs") != NULL);
  /* libllama creates no context with quantized values but without flash attention. */
  lh_engine_default_params(&params);
  params.flash_attn = 0;
  params.type_v = 8;
  CHECK(lh_engine_new(model, &params, &engine, &error) == LH_CONTEXT_ERROR);
  CHECK(strstr(error.message, "no llama_context could be made (n_ctx 2048") != NULL);
  lh_engine_free(NULL);
}

static void test_life_of_requests(lh_model* model) {
  lh_engine* engine = new_engine(model);
  lh_sampling_params greedy;
  lh_engine_info info;
  lh_client_info client;
  lh_stats stats;
  char alone[512];
  lh_sampling_default_params(&greedy);
  answer(engine, model, "The capital of France is Paris, and", &greedy, 8, alone);
  CHECK(strlen(alone) > 4);
  SUCCEEDS(lh_engine_get_stats(engine, -1, &stats, &error));
  CHECK(stats.n_cells_max > 4);
  CHECK(stats.n_generated >= 1 && stats.n_generated <= 8);

  /* Forks a held prefix twice, then pauses and resumes one of the forks. */
  SUCCEEDS(submit(engine, model, 100, "The capital of France", NULL, 0, -1));
  CHECK(run_all(engine) == 1);
  SUCCEEDS(lh_client_get(engine, 100, &client, &error));
  CHECK(client.state == LH_STATE_HELD && client.n_generated == 0);
  SUCCEEDS(
      submit(engine, model, 1, "The capital of France is Paris, and", &greedy, 8, 100));
  SUCCEEDS(submit(engine, model, 2, "The capital of France was", &greedy, 200, 100));
  REFUSES(submit(engine, model, 2, "twice", &greedy, 8, -1));
  SUCCEEDS(lh_client_pause(engine, 1, &error));
  SUCCEEDS(lh_client_get(engine, 1, &client, &error));
  CHECK(client.state == LH_STATE_PAUSED && client.n_reused > 2);
  SUCCEEDS(lh_engine_get_info(engine, &info, &error));
  CHECK(info.n_seq_max == 4 && info.n_ctx >= 1024 && info.n_seq_used == 2);
  SUCCEEDS(lh_client_set_priority(engine, 1, 3, &error));
  SUCCEEDS(lh_client_resume(engine, 1, &error));
  SUCCEEDS(lh_client_end(engine, 2, LH_FINISH_ERROR, "not wanted", &error));
  run_all(engine);
  SUCCEEDS(lh_client_get(engine, 1, &client, &error));
  CHECK(strcmp(client.text, alone) == 0);
  SUCCEEDS(lh_client_get(engine, 2, &client, &error));
  CHECK(client.state == LH_STATE_FAILED && strcmp(client.message, "not wanted") == 0);
  CHECK(lh_engine_seq_pos_max(engine, 5) == -1);
  CHECK(lh_client_release(engine, 7, &error) == LH_NOT_FOUND);
  CHECK(lh_client_pause(engine, 7, &error) == LH_NOT_FOUND);
  CHECK(lh_client_resume(engine, 7, &error) == LH_NOT_FOUND);
  CHECK(lh_client_set_priority(engine, 7, 3, &error) == LH_NOT_FOUND);
  CHECK(lh_client_get(engine, 7, &client, &error) == LH_NOT_FOUND);
  SUCCEEDS(lh_engine_reset(engine, &error));
  SUCCEEDS(lh_engine_get_info(engine, &info, &error));
  CHECK(info.n_cells_used == 0 && info.n_seq_used == 0);
  lh_engine_free(engine);
}

static void test_abort_and_bad_runs(lh_model* model) {
  lh_engine* engine = new_engine(model);
  lh_sampling_params greedy;
  lh_run_params params;
  lh_run_result result;
  int64_t events[2];
  lh_run_default_params(&params);
  lh_sampling_default_params(&greedy);
  SUCCEEDS(submit(engine, model, 1, "One", &greedy, 1, -1));
  lh_engine_abort(engine, 1);
  CHECK(lh_engine_run(engine, &params, events, 2, &result, &error) == LH_ABORTED);
  CHECK(result.n_steps == 0 && result.n_events == 0);
  lh_engine_abort(engine, 0);
  lh_engine_abort(NULL, 1);
  REFUSES(lh_engine_run(engine, NULL, events, 2, &result, &error));
  REFUSES(lh_engine_run(engine, &params, events, 2, NULL, &error));
  REFUSES(lh_engine_run(NULL, &params, events, 2, &result, &error));
  SUCCEEDS(lh_engine_run(engine, &params, events, 2, &result, &error));
  CHECK(result.n_events == 1 && events[0] == 1);
  lh_engine_free(engine);
}

/* ---- grammars and DRY, which need a real vocabulary of libllama -------------------
 */

static void test_grammar(lh_model* model) {
  lh_engine* engine = new_engine(model);
  lh_sampling_params sampling;
  char text[512];
  int32_t seed;
  lh_sampling_default_params(&sampling);
  sampling.grammar = "root ::= \"yes\" | \"no\"";
  answer(engine, model, "Is water wet? Answer:", &sampling, 8, text);
  CHECK(strcmp(text, "yes") == 0 || strcmp(text, "no") == 0);
  /* The grammar rarely allows the first drawn token, so the vocabulary is masked. */
  sampling.temperature = 1.5f;
  sampling.grammar = "root ::= [0-9] [0-9] [0-9]";
  for (seed = 0; seed < 4; ++seed) {
    sampling.seed = (uint32_t)seed;
    answer(engine, model, "Once upon a time", &sampling, 8, text);
    CHECK(strlen(text) == 3 && strspn(text, "0123456789") == 3);
  }
  sampling.grammar = "root ::= (";
  CHECK(submit(engine, model, 1, "One", &sampling, 4, -1) == LH_SAMPLER_ERROR);
  CHECK(strstr(error.message, "grammar cannot be parsed") != NULL);
  lh_engine_free(engine);
}

static void test_choices(lh_model* model) {
  static const char* const kChoices[] = {"Paris", "New York", "New York City", "\"x\"\n"};
  static const int32_t kSizes[] = {5, 8, 13, 4};
  lh_engine* engine = new_engine(model);
  lh_sampling_params sampling;
  lh_client_info info;
  char text[512];
  lh_sampling_default_params(&sampling);
  sampling.n_choices = 4;
  sampling.choices = kChoices;
  sampling.choice_size = kSizes;
  SUCCEEDS(lh_sampling_check(model, &sampling, &error));
  answer(engine, model, "The capital of France is", &sampling, 14, text);
  CHECK(strcmp(text, "Paris") == 0);
  answer(engine, model, "He lives in New York. Where does he live? In", &sampling, 14,
         text);
  CHECK(strcmp(text, "New York") == 0);
  /* The first token distinguishes Paris from the other two choices, which share
   * theirs. */
  sampling.n_choices = 2;
  sampling.choices = kChoices + 1;
  sampling.choice_size = kSizes + 1;
  SUCCEEDS(submit(engine, model, 1, "The city is", &sampling, 1, -1));
  CHECK(run_all(engine) == 1 && lh_client_get(engine, 1, &info, &error) == LH_OK);
  CHECK(info.finish == LH_FINISH_LENGTH && info.complete == 0);
  sampling.grammar = "root ::= \"a\"";
  REFUSES(lh_sampling_check(model, &sampling, &error));
  sampling.n_choices = 0;
  sampling.grammar = "yes";
  CHECK(lh_sampling_check(model, &sampling, &error) == LH_SAMPLER_ERROR);
  CHECK(strstr(error.message, "by choices") != NULL);
  lh_engine_free(engine);
}

static void test_dry(lh_model* model) {
  static const char kPrompt[] = "a b c d e f a b c d e f a b c d e f a b c";
  static const char* const kBreakers[] = {"\n", ":"};
  lh_engine* engine = new_engine(model);
  lh_sampling_params sampling;
  char plain[512], dry[512], again[512], broken[512];
  lh_sampling_default_params(&sampling);
  answer(engine, model, kPrompt, &sampling, kTop, plain);
  sampling.dry_multiplier = 5.0f;
  sampling.n_dry_breakers = 2;
  sampling.dry_breakers = kBreakers;
  answer(engine, model, kPrompt, &sampling, kTop, dry);
  CHECK(strncmp(plain, " d e f", 6) == 0);
  CHECK(strncmp(dry, " d e f", 6) != 0);
  answer(engine, model, kPrompt, &sampling, kTop, again);
  CHECK(strcmp(dry, again) == 0);
  /* The window is too short to contain a repetition. */
  sampling.dry_penalty_last_n = 1;
  answer(engine, model, kPrompt, &sampling, kTop, broken);
  CHECK(strcmp(broken, plain) == 0);
  /* Memory is allocated only for existing tokens; the whole window would need 17 GB. */
  sampling.dry_penalty_last_n = INT32_MAX;
  answer(engine, model, kPrompt, &sampling, kTop, again);
  CHECK(strcmp(dry, again) == 0);
  /* The same with further samplers in the chain. */
  sampling.dry_penalty_last_n = -1;
  sampling.temperature = 0.01f;
  answer(engine, model, kPrompt, &sampling, kTop, again);
  CHECK(strncmp(again, " d e f", 6) != 0);
  lh_engine_free(engine);
}

int main(void) {
  const char* path = getenv("LLAMAHERD_TEST_SMOLLM2");
  lh_model_params params;
  lh_model* model = NULL;
  if (path == NULL) {
    fprintf(stderr,
            "LLAMAHERD_TEST_SMOLLM2 must name the model file; see `make models`\n");
    return 2;
  }
  lh_backend_init(0);
  lh_model_default_params(&params);
  params.n_gpu_layers = gpu_layers();
  if (lh_model_load(path, &params, &model, &error) != LH_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 2;
  }
  test_library();
  test_model_info(model);
  test_vocabulary(model);
  test_texts(model);
  test_prefix_tree();
  test_engine_parameters(model);
  test_life_of_requests(model);
  test_abort_and_bad_runs(model);
  test_grammar(model);
  test_choices(model);
  test_dry(model);
  lh_model_free(model);
  lh_backend_free();
  printf("engine: %d passed, %d failed\n", n_passed, n_failed);
  return n_failed == 0 ? 0 : 1;
}
