/*
 * newrllama_capi.h: llama.cpp for any language with a C FFI, many prompts at once.
 *
 * newrllama_generate_parallel answers any number of prompts through one context. Each
 * prompt has its own sequence, sampler and buffer. When a slot is free, the next prompt
 * starts immediately. A shared prefix is computed once. A failure affects only its own
 * prompt. The step-level engine is declared in llamaherd.h.
 *
 * Rules for every function
 *   - Functions that can fail return a newrllama_error_code. If `error_message` is not
 *     NULL, they set it to a message, or to NULL on success. The message belongs to the
 *     library and is valid until the next call on the same thread; do not free it.
 *   - Strings are UTF-8. The caller owns returned strings and arrays, and frees them with
 *     the newrllama_free_* function named in the comment.
 *   - A context may be used from several threads; its calls run one after the other. Do
 *     not free a model or context during a call on it. Free a model after its contexts.
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

/* Version of this interface. The version increases whenever a function or a struct of
 * this header changes so that a client compiled earlier can no longer use it. */
#define NEWRLLAMA_ABI_VERSION 1

typedef enum newrllama_error_code {
  NEWRLLAMA_SUCCESS = 0,
  NEWRLLAMA_ERROR = 1,
  NEWRLLAMA_INVALID_ARGUMENT = 2,
  NEWRLLAMA_MODEL_ERROR = 3,
  NEWRLLAMA_CONTEXT_ERROR = 4,
  NEWRLLAMA_ABORTED = 5 /* newrllama_abort was called; finished results are kept */
} newrllama_error_code;

typedef struct newrllama_model* newrllama_model_handle;
typedef struct newrllama_context* newrllama_context_handle;

/* The two structs that a client fills. These structs have no size field. The layout of a
 * struct never changes, because it is part of the signature of a function. Other
 * settings are available in llamaherd.h, or will get a new function with its own
 * struct. */
struct newrllama_chat_message {
  const char* role;
  const char* content;
};

/* A value out of range is an error NEWRLLAMA_INVALID_ARGUMENT of the call. */
struct newrllama_parallel_params {
  int max_tokens;    /* maximum tokens to generate per prompt, >= 1 */
  int top_k;         /* <= 0: off */
  float top_p;       /* 1: off */
  float temperature; /* <= 0: always the most likely token */
  int repeat_last_n; /* last tokens considered by the repeat penalty; 0: off; -1: all */
  float penalty_repeat; /* 1: off */
  /* the seed of each prompt is derived from this value and the prompt's index; < 0:
   * random */
  int32_t seed;
};

/* ---- models and contexts ---- */

/* Returns the NEWRLLAMA_ABI_VERSION of the loaded library. A client compares it with its
 * own NEWRLLAMA_ABI_VERSION. Any thread. */
NEWRLLAMA_API int32_t newrllama_abi_version(void);

/* Initializes libllama's backends. Repeated calls have no effect. */
NEWRLLAMA_API newrllama_error_code newrllama_backend_init(const char** error_message);
NEWRLLAMA_API void newrllama_backend_free(void);

/* Loads a GGUF file. n_gpu_layers: layers to keep in GPU memory; negative: all. The
 * caller owns *model_out and frees it with newrllama_model_free, after all its contexts.
 */
NEWRLLAMA_API newrllama_error_code newrllama_model_load(const char* model_path,
                                                        int n_gpu_layers, bool use_mmap,
                                                        bool use_mlock,
                                                        newrllama_model_handle* model_out,
                                                        const char** error_message);
NEWRLLAMA_API void newrllama_model_free(newrllama_model_handle model);

/* Creates a context. The caller owns *context_out and frees it with
 * newrllama_context_free. n_ctx: KV cells, a pool that all prompts share; one prompt with
 * its answer may use the whole pool. The longest prompt of a call determines the number
 * of prompts that run at once, which is at most n_seq_max. (Each of these prompts takes
 * at least 256 cells, libllama's smallest stream.) n_threads: 0 for libllama's
 * default. */
NEWRLLAMA_API newrllama_error_code newrllama_context_create(
    newrllama_model_handle model, int n_ctx, int n_threads, int n_seq_max,
    newrllama_context_handle* context_out, const char** error_message);
NEWRLLAMA_API void newrllama_context_free(newrllama_context_handle context);

/* ---- text ---- */

/* Converts text to tokens. Special tokens in `text` are not parsed. The caller owns
 * *tokens_out: free with newrllama_free_tokens. */
NEWRLLAMA_API newrllama_error_code newrllama_tokenize(newrllama_model_handle model,
                                                      const char* text, bool add_special,
                                                      int32_t** tokens_out,
                                                      size_t* n_tokens_out,
                                                      const char** error_message);

/* Converts tokens to text. Special tokens add no text. The caller owns *text_out: free
 * with newrllama_free_string. */
NEWRLLAMA_API newrllama_error_code newrllama_detokenize(newrllama_model_handle model,
                                                        const int32_t* tokens,
                                                        size_t n_tokens, char** text_out,
                                                        const char** error_message);

/* Formats a conversation. tmpl: NULL for the model's own template; it must be one that
 * llama_chat_apply_template supports (Jinja templates are rendered in the Python layer).
 * Special tokens in message texts are marked as literal and later treated as plain text.
 * The caller owns *text_out: free with newrllama_free_string. */
NEWRLLAMA_API newrllama_error_code newrllama_apply_chat_template(
    newrllama_model_handle model, const char* tmpl,
    const struct newrllama_chat_message* messages, size_t n_messages, bool add_assistant,
    char** text_out, const char** error_message);

/* Free results of the functions above. NULL is allowed. */
NEWRLLAMA_API void newrllama_free_string(char* text);
NEWRLLAMA_API void newrllama_free_tokens(int32_t* tokens);
NEWRLLAMA_API void newrllama_free_string_array(char** texts, int n_texts);

/* ---- generation ---- */

/* Answers one prompt given as tokens. Returns an error where newrllama_generate_parallel
 * would return an error text. The caller owns *text_out: free with newrllama_free_string.
 */
NEWRLLAMA_API newrllama_error_code
newrllama_generate(newrllama_context_handle ctx, const int32_t* tokens, size_t n_tokens,
                   const struct newrllama_parallel_params* params, char** text_out,
                   const char** error_message);

/* Answers n_prompts prompts. *results_out: n_prompts texts in the order of the prompts,
 * owned by the caller: free with newrllama_free_string_array. A failed prompt has the
 * text "[ERROR] reason"; the other prompts are still answered. Special tokens are parsed
 * in prompts that start with one, like the output of chat templates. */
NEWRLLAMA_API newrllama_error_code
newrllama_generate_parallel(newrllama_context_handle ctx, const char** prompts,
                            int n_prompts, const struct newrllama_parallel_params* params,
                            char*** results_out, const char** error_message);

/* Stops the call that runs on the context within a fraction of a second. That call
 * returns NEWRLLAMA_ABORTED with the finished answers, and "[ERROR] cancelled" for the
 * other prompts. May be called from another thread or a signal handler. No effect without
 * a running call. */
NEWRLLAMA_API void newrllama_abort(newrllama_context_handle ctx);

/* Returns statistics of the last finished call on the context as one line of text, as
 * printed with NEWRLLAMA_DEBUG=1. The caller owns *text_out: free with
 * newrllama_free_string. */
NEWRLLAMA_API newrllama_error_code newrllama_stats(newrllama_context_handle ctx,
                                                   char** text_out,
                                                   const char** error_message);

/* ---- vocabulary ---- (a token outside it gives NULL, 0 or false) */

/* Returns the text in the vocabulary, owned by the model. */
NEWRLLAMA_API const char* newrllama_token_get_text(newrllama_model_handle model,
                                                   int32_t token);
NEWRLLAMA_API float newrllama_token_get_score(newrllama_model_handle model,
                                              int32_t token);
NEWRLLAMA_API int newrllama_token_get_attr(newrllama_model_handle model, int32_t token);
NEWRLLAMA_API bool newrllama_token_is_eog(newrllama_model_handle model, int32_t token);
NEWRLLAMA_API bool newrllama_token_is_control(newrllama_model_handle model,
                                              int32_t token);
/* Ids of special tokens; -1 if the model has none. */
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
