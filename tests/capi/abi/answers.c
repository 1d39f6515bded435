/* Answers prompts from standard input, for the tests that compare C with Python and R.
 *   answers MODEL N_CTX N_SEQ_MAX MAX_TOKENS < prompts > answers
 * Prompts and answers are each ended by a NUL byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "newrllama_capi.h"

static int fail(const char* what, const char* message) {
  fprintf(stderr, "%s: %s\n", what, message ? message : "unknown error");
  return 1;
}

static char* read_all(size_t* size) {
  size_t capacity = 1 << 16;
  char* data = malloc(capacity);
  *size = 0;
  while (data != NULL) {
    *size += fread(data + *size, 1, capacity - *size, stdin);
    if (*size < capacity) return data;
    capacity *= 2;
    data = realloc(data, capacity);
  }
  return NULL;
}

int main(int argc, char** argv) {
  newrllama_model_handle model = NULL;
  newrllama_context_handle ctx = NULL;
  struct newrllama_parallel_params params = {0, 40, 1.0f, 0.0f, 0, 1.0f, 1234};
  const char* message = NULL;
  const char** prompts;
  char** results = NULL;
  char* input;
  size_t size, i;
  int n = 0, k = 0;

  if (argc != 5) return fail("usage", "answers MODEL N_CTX N_SEQ_MAX MAX_TOKENS");
  params.max_tokens = atoi(argv[4]);
  input = read_all(&size);
  if (input == NULL) return fail("stdin", "out of memory");
  for (i = 0; i < size; ++i) n += input[i] == '\0';
  prompts = malloc(sizeof(*prompts) * (size_t)(n + 1));
  if (prompts == NULL) return fail("prompts", "out of memory");
  for (i = 0; k < n; i += strlen(input + i) + 1) prompts[k++] = input + i;

  if (newrllama_model_load(argv[1], 0, true, false, &model, &message) ||
      newrllama_context_create(model, atoi(argv[2]), 2, atoi(argv[3]), &ctx, &message) ||
      newrllama_generate_parallel(ctx, prompts, n, &params, &results, &message)) {
    return fail("newrllama", message);
  }
  for (k = 0; k < n; ++k) fwrite(results[k], 1, strlen(results[k]) + 1, stdout);

  newrllama_free_string_array(results, n);
  newrllama_context_free(ctx);
  newrllama_model_free(model);
  free(prompts);
  free(input);
  return 0;
}
