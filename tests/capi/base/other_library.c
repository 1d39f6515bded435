/* A program whose libllama is not the one of the build: CMake preloads other_commit.c. */
#include <string.h>

#include "check.h"
#include "newrllama_capi.h"

int main(void) {
  const char* message = NULL;
  newrllama_model_handle model = NULL;
  CHECK(newrllama_backend_init(&message) != NEWRLLAMA_SUCCESS);
  CHECK(message != NULL && strstr(message, "badc0de") != NULL);
  CHECK(newrllama_model_load("model.gguf", 0, 1, 0, &model, &message) !=
        NEWRLLAMA_SUCCESS);
  CHECK(message != NULL && strstr(message, "badc0de") != NULL);
  CHECK(model == NULL);
  printf("%d passed, %d failed\n", n_passed, n_failed);
  return n_failed == 0 ? 0 : 1;
}
