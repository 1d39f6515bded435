/*
 * newrllama_capi.h: llama.cpp for any language with a C FFI, many prompts at once.
 *
 * newrllama_generate_parallel answers any number of prompts through one context: one
 * sequence, sampler and buffer per prompt, freed slots refilled at once, shared prefixes
 * computed once, failures kept to the prompt that caused them. The step-level engine
 * below it is llamaherd.h.
 *
 * Rules that hold for every function
 *   - Functions that can fail return a newrllama_error_code and, if `error_message` is
 * not NULL, set it to a message, or to NULL on success. Messages are thread-local and
 * live until the thread's next call; do not free them.
 *   - Strings are UTF-8. Strings and arrays handed out belong to the caller, who frees
 * them with the newrllama_free_* function named in the comment.
 *   - A context may be used from several threads; calls on it take turns. A model or
 *     context must not be freed while a call on it runs, a model not before its contexts.
 */
#ifndef NEWRLLAMA_CAPI_H
#define NEWRLLAMA_CAPI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define NEWRLLAMA_API __declspec(dllexport)
#else
#define NEWRLLAMA_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum newrllama_error_code {
  NEWRLLAMA_SUCCESS = 0,
  NEWRLLAMA_ERROR = 1,
  NEWRLLAMA_INVALID_ARGUMENT = 2,
  NEWRLLAMA_MODEL_ERROR = 3,
  NEWRLLAMA_CONTEXT_ERROR = 4,
  NEWRLLAMA_ABORTED = 5 /* newrllama_abort was called; finished results are there */
} newrllama_error_code;

typedef struct newrllama_model* newrllama_model_handle;
typedef struct newrllama_context* newrllama_context_handle;

struct newrllama_chat_message {
  const char* role;
  const char* content;
};

struct newrllama_parallel_params {
  int max_tokens;       /* tokens to generate per prompt at most, >= 1 */
  int top_k;            /* <= 0: off */
  float top_p;          /* 1: off */
  float temperature;    /* <= 0: the most likely token each time */
  int repeat_last_n;    /* tokens that the repeat penalty looks at; 0: off; -1: all */
  float penalty_repeat; /* 1: off */
  int32_t seed;         /* prompt i draws with a seed made of this and i; < 0: fresh */
};

/* ---- life ---- */

NEWRLLAMA_API newrllama_error_code newrllama_backend_init(const char** error_message);
NEWRLLAMA_API void newrllama_backend_free(void);

/* Loads a GGUF file. n_gpu_layers: layers kept in video memory, negative: all. */
NEWRLLAMA_API newrllama_error_code newrllama_model_load(const char* model_path,
                                                        int n_gpu_layers, bool use_mmap,
                                                        bool use_mlock,
                                                        newrllama_model_handle* model_out,
                                                        const char** error_message);
NEWRLLAMA_API void newrllama_model_free(newrllama_model_handle model);

/* n_ctx: KV cells, a pool that all prompts share: one prompt with its answer may use all
 * of it, and how many run at once, at most n_seq_max, follows from the longest of a call.
 * (Streams of 256 cells are the smallest that libllama makes.) n_threads: 0 for
 * libllama's default. */
NEWRLLAMA_API newrllama_error_code newrllama_context_create(
    newrllama_model_handle model, int n_ctx, int n_threads, int n_seq_max,
    newrllama_context_handle* context_out, const char** error_message);
NEWRLLAMA_API void newrllama_context_free(newrllama_context_handle context);

/* ---- text ---- */

/* *tokens_out: free with newrllama_free_tokens. Special tokens in `text` are not parsed.
 */
NEWRLLAMA_API newrllama_error_code newrllama_tokenize(newrllama_model_handle model,
                                                      const char* text, bool add_special,
                                                      int32_t** tokens_out,
                                                      size_t* n_tokens_out,
                                                      const char** error_message);

/* *text_out: free with newrllama_free_string. Special tokens give no text. */
NEWRLLAMA_API newrllama_error_code newrllama_detokenize(newrllama_model_handle model,
                                                        const int32_t* tokens,
                                                        size_t n_tokens, char** text_out,
                                                        const char** error_message);

/* Formats a conversation. tmpl: NULL for the model's own template; it must be one that
 * llama_chat_apply_template knows (Jinja is left to the layers above). Special tokens in
 * message texts are marked as literal, so that a document stays a document. *text_out:
 * free with newrllama_free_string. */
NEWRLLAMA_API newrllama_error_code newrllama_apply_chat_template(
    newrllama_model_handle model, const char* tmpl,
    const struct newrllama_chat_message* messages, size_t n_messages, bool add_assistant,
    char** text_out, const char** error_message);

NEWRLLAMA_API void newrllama_free_string(char* text);
NEWRLLAMA_API void newrllama_free_tokens(int32_t* tokens);
NEWRLLAMA_API void newrllama_free_string_array(char** texts, int n_texts);

/* ---- generation ---- */

/* Answers one prompt given as tokens; fails where generate_parallel would give an error
 * text. *text_out: free with newrllama_free_string. */
NEWRLLAMA_API newrllama_error_code
newrllama_generate(newrllama_context_handle ctx, const int32_t* tokens, size_t n_tokens,
                   const struct newrllama_parallel_params* params, char** text_out,
                   const char** error_message);

/* Answers n_prompts prompts. *results_out: n_prompts texts in the order of the prompts,
 * free with newrllama_free_string_array. A prompt that failed has the text
 * "[ERROR] reason" and the others are answered all the same. Special tokens are parsed in
 * prompts that start with one, as those of chat templates do. */
NEWRLLAMA_API newrllama_error_code
newrllama_generate_parallel(newrllama_context_handle ctx, const char** prompts,
                            int n_prompts, const struct newrllama_parallel_params* params,
                            char*** results_out, const char** error_message);

/* Stops the call that runs on the context within a fraction of a second: it returns
 * NEWRLLAMA_ABORTED, finished answers in place, "[ERROR] cancelled" for the rest. May be
 * called from another thread or a signal handler. Without a running call: no effect. */
NEWRLLAMA_API void newrllama_abort(newrllama_context_handle ctx);

/* Statistics of the last finished call on the context as one line of text, the line that
 * NEWRLLAMA_DEBUG=1 prints. *text_out: free with newrllama_free_string. */
NEWRLLAMA_API newrllama_error_code newrllama_stats(newrllama_context_handle ctx,
                                                   char** text_out,
                                                   const char** error_message);

/* ---- vocabulary ---- (a token outside it gives NULL, 0 or false) */

NEWRLLAMA_API const char* newrllama_token_get_text(newrllama_model_handle model,
                                                   int32_t token);
NEWRLLAMA_API float newrllama_token_get_score(newrllama_model_handle model,
                                              int32_t token);
NEWRLLAMA_API int newrllama_token_get_attr(newrllama_model_handle model, int32_t token);
NEWRLLAMA_API bool newrllama_token_is_eog(newrllama_model_handle model, int32_t token);
NEWRLLAMA_API bool newrllama_token_is_control(newrllama_model_handle model,
                                              int32_t token);
/* Ids of special tokens, -1 where the model has none. */
NEWRLLAMA_API int32_t newrllama_token_bos(newrllama_model_handle model);
NEWRLLAMA_API int32_t newrllama_token_eos(newrllama_model_handle model);
NEWRLLAMA_API int32_t newrllama_token_sep(newrllama_model_handle model);
NEWRLLAMA_API int32_t newrllama_token_nl(newrllama_model_handle model);
NEWRLLAMA_API int32_t newrllama_token_pad(newrllama_model_handle model);
NEWRLLAMA_API int32_t newrllama_token_eot(newrllama_model_handle model);
NEWRLLAMA_API int32_t newrllama_token_fim_pre(newrllama_model_handle model);
NEWRLLAMA_API int32_t newrllama_token_fim_mid(newrllama_model_handle model);
NEWRLLAMA_API int32_t newrllama_token_fim_suf(newrllama_model_handle model);
NEWRLLAMA_API bool newrllama_add_bos_token(newrllama_model_handle model);
NEWRLLAMA_API bool newrllama_add_eos_token(newrllama_model_handle model);

#ifdef __cplusplus
}
#endif

#endif /* NEWRLLAMA_CAPI_H */
