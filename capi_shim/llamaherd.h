/*
 * llamaherd.h: the step-level engine of llamaherd, a plain C (C99) interface.
 *
 * The interface has only the mechanism: tokens, sequences, positions, logits and
 * samplers. The caller decides when a prompt runs, which prefix is shared and how a
 * failure is handled. For a single function that includes these decisions, see
 * newrllama_capi.h.
 *
 * Rules for every function
 *   - Functions that can fail return LH_OK or another lh_status and write a message that
 *     names the invalid value to `error`. The caller owns `error`, which may be NULL.
 *   - No function throws, and no invalid argument ends the process.
 *   - Pointer arguments are read during the call only, unless the comment states
 *     otherwise.
 *   - A struct that a client fills begins with struct_size, the sizeof of the struct in
 *     the client's own copy of this header. lh_*_default_params set it; for the others,
 *     write e.g. `lh_score score = {.struct_size = sizeof(lh_score)};`. A function that
 *     receives a different size returns LH_INVALID_ARGUMENT and names the struct and
 *     both sizes.
 *   - In a process that was forked after a model was loaded, every function that returns
 *     an lh_status fails with LH_FORKED, because fork() does not copy the compute
 *     threads. The free functions have no effect there.
 *   - Engine functions may be called from several threads, because they lock the engine.
 *     lh_engine_abort and lh_engine_wake do not wait for the lock. The caller ensures
 *     that no call is running on an object while it is freed.
 */
#ifndef LLAMAHERD_H
#define LLAMAHERD_H

#include <stdint.h>

#if defined(_WIN32)
#define LH_API __declspec(dllexport)
#else
#define LH_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status and errors --------------------------------------------------------- */

typedef enum lh_status {
  LH_OK = 0,
  LH_INVALID_ARGUMENT = 1, /* an argument has an invalid value; nothing was changed */
  LH_NOT_FOUND = 2,        /* unknown request id or key, or missing file */
  LH_MODEL_ERROR = 3,   /* the model failed to load or does not support the operation */
  LH_CONTEXT_ERROR = 4, /* the llama_context could not be created */
  LH_NO_SPACE = 5,     /* no free sequence id or not enough free KV cells at the moment */
  LH_DECODE_ERROR = 6, /* llama_decode rejected the batch; no client advanced */
  LH_ABORTED = 7,      /* lh_engine_abort was called; clients keep their results */
  LH_SAMPLER_ERROR = 8, /* a sampler's settings allow no answer, e.g. its grammar */
  LH_INTERNAL = 9,      /* an internal exception; the message contains its text */
  LH_FORKED = 10        /* the process was forked after a model was loaded */
} lh_status;

typedef struct lh_error {
  int32_t code; /* value of enum lh_status */
  char message[1024];
} lh_error;

/* ---- sizes for drivers of the engine -------------------------------------------- */

enum {
  LH_CELL_BLOCK = 256,       /* libllama rounds a stream's cells up to a multiple */
  LH_UNIFORM_ROWS = 8,       /* sequences that a deterministic engine computes together */
  LH_AMX_ROWS = 32,          /* rows per block of a batch with AMX, see lh_has_amx */
  LH_MAX_PREFIX_DEPTH = 4,   /* maximum nesting depth of shared prefixes */
  LH_MAX_LOGPROBS = 1024,    /* maximum number of alternatives per generated token */
  LH_MAX_THOUGHT_SPACE = 2,  /* maximum white space tokens before a start marker */
  LH_MAX_THOUGHT_OVERRUN = 3 /* maximum tokens beyond a thought's budget */
};

/* ---- library ------------------------------------------------------------------- */

/* Version of llamaherd, for #if. The same version stands in pyproject.toml. */
#define LH_VERSION_MAJOR 0
#define LH_VERSION_MINOR 1
#define LH_VERSION_PATCH 0

/* Version of this interface. The version increases whenever a function or a struct of
 * this header changes so that a client compiled earlier can no longer use it. */
#define LH_ABI_VERSION 1

/* Returns the LH_ABI_VERSION of the loaded library. A client compares it with its own
 * LH_ABI_VERSION before it calls any other function, and stops if they differ. Any
 * thread. */
LH_API int32_t lh_abi_version(void);

/* Initializes libllama's backends and redirects its log: lines go to a short buffer (see
 * lh_log_drain) instead of stderr. With chain != 0 each line is also passed to the log
 * callback that was set before. Repeated calls have no effect. If the loaded libllama
 * comes from another commit than the headers of the build, this function does nothing,
 * and each function with a status returns LH_INTERNAL and says so. (The environment
 * variable LLAMAHERD_SKIP_ABI_CHECK=1 disables the check.) */
LH_API void lh_backend_init(int32_t chain);

/* Frees libllama's backends. Call after every model and engine is freed. */
LH_API void lh_backend_free(void);

/* Moves buffered log lines of libllama, oldest first, each with a newline, into `buffer`
 * (char[size], owned by the caller). Returns the number of bytes written, without the
 * NUL. Any thread. */
LH_API int32_t lh_log_drain(char* buffer, int32_t size);

/* Writes the compiled sizes of the structs that libllama takes by value, and n_batch of
 * llama_context_default_params(), for a test of the loaded library. out: int32[4] =
 * sizeof model params, context params, batch; n_batch. Owned by the caller. */
LH_API void lh_abi_probe(int32_t* out);

/* Returns ggml_commit() of the loaded library. The string is static; the caller does not
 * free it. */
LH_API const char* lh_ggml_commit(void);

/* Returns LH_FORKED in a process that was forked after a model was loaded, else LH_OK. */
LH_API int32_t lh_process_check(lh_error* error);

/* Makes ggml compute on llamaherd's threads, which remain fast when other programs use
 * the CPU. Returns 1 on success. Returns 0 if ggml was compiled without OpenMP or with an
 * OpenMP library other than GCC's, or if this is neither Linux nor Windows. */
LH_API int32_t lh_own_threads(void);

/* Returns 1 if the loaded libllama supports a GPU, else 0. */
LH_API int32_t lh_supports_gpu_offload(void);

/* GPU that libllama can use. */
typedef struct lh_gpu {
  char name[64];         /* such as "CUDA0" */
  char description[128]; /* such as "NVIDIA H200" */
  uint64_t free_bytes;   /* free memory at the moment */
  uint64_t total_bytes;
  int32_t shares_memory; /* 1 if its memory is the processor's memory, else 0 */
} lh_gpu;

/* Stores up to `capacity` GPUs in the order of main_gpu and tensor_split, and their
 * number in *count. Returns LH_NO_SPACE if there are more. `out` is owned by the caller.
 * Any thread. */
LH_API int32_t lh_gpus(lh_gpu* out, int32_t capacity, int32_t* count, lh_error* error);

/* Returns 1 if the loaded libllama multiplies with AMX, the matrix instructions of newer
 * Intel processors, else 0. AMX computes the rows of a batch in blocks of 32. */
LH_API int32_t lh_has_amx(void);

/* Returns the seed of client number `index` in a call with seed `seed` (splitmix64 of
 * both). This seed initializes the generator of the client, so that a client's random
 * numbers do not depend on other clients. */
LH_API uint32_t lh_derive_seed(uint32_t seed, uint64_t index);

/* ---- model --------------------------------------------------------------------- */

typedef struct lh_model lh_model;

/* LoRA adapter and its scale. */
typedef struct lh_lora {
  uint64_t struct_size; /* sizeof(lh_lora) */
  const char* path;     /* path of a GGUF file */
  float scale;          /* finite; 0 has no effect, but the file is still checked */
} lh_lora;

/* LoRA adapters for all engines of a model. */
typedef struct lh_adapters {
  uint64_t struct_size; /* sizeof(lh_adapters) */
  const lh_lora* lora;
  int32_t n_lora;
} lh_adapters;

typedef struct lh_model_params {
  uint64_t struct_size; /* sizeof(lh_model_params) */
  int32_t n_gpu_layers; /* layers to keep in GPU memory; negative: all */
  int32_t use_mmap;
  int32_t use_mlock;
  int32_t vocab_only;
  int32_t check_tensors; /* validate the data of every tensor during loading */
  /* maximum bytes of tensors, adapters included; a larger model is refused; 0: no
   * limit */
  uint64_t memory_bytes;
  const lh_adapters* adapters; /* read during the call only; NULL: none */
  int32_t split_mode; /* several GPUs: 0 uses main_gpu alone, 1 splits layers, 2 rows */
  int32_t main_gpu;   /* index in lh_gpus() */
  /* share of the model on each GPU, any unit, copied; NULL: shares by free memory */
  const float* tensor_split;
  int32_t n_tensor_split;
  /* NULL, or a number that any thread may set to another value than 0 during the call:
   * loading then stops after the current tensor with LH_MODEL_ERROR */
  const volatile int32_t* is_cancelled;
} lh_model_params;

/* Sets use_mmap 1, split_mode 1, no layers in GPU memory, no adapters and no limits. */
LH_API void lh_model_default_params(lh_model_params* params);

typedef struct lh_gguf_info {
  uint64_t file_bytes;   /* size of all parts */
  uint64_t tensor_bytes; /* size of all tensors, a lower bound on the model's memory */
  int64_t n_tensors;
  int32_t n_parts;       /* files that the model is split into; 1: not split */
  int32_t i_part;        /* index of this file among the parts, from 0 */
  char architecture[64]; /* such as "llama"; "" if the file has none */
} lh_gguf_info;

/* Checks the header of a GGUF file in a few milliseconds: magic number, version, and that
 * counts, strings and tensors lie within the file. The other files of a split model are
 * checked in the same way. Returns LH_MODEL_ERROR for a truncated or damaged file. Does
 * not check the values of tensors (see check_tensors) or anything that only loading can
 * detect. `out` is owned by the caller. Any thread. */
LH_API int32_t lh_gguf_check(const char* path, lh_gguf_info* out, lh_error* error);

/* Loads a GGUF file (llama_model_load_from_file) after lh_gguf_check, then its adapters
 * (llama_adapter_lora_init) after a similar check. Returns LH_MODEL_ERROR if a file is
 * damaged, is not a LoRA adapter, or was made for another model. The caller owns *out and
 * frees it with lh_model_free. */
LH_API int32_t lh_model_load(const char* path, const lh_model_params* params,
                             lh_model** out, lh_error* error);

/* Loads adapters for a loaded model, after the checks of lh_model_load. Engines of *out
 * compute with the adapters, engines of `base` do not; both use the same weights. *out
 * keeps `base` alive. The adapters are freed together with `base`. Call this function
 * before the first engine of `base`, or of a model that shares its weights, is created:
 * libllama reads its list of adapters without a lock. The caller frees *out with
 * lh_model_free. */
LH_API int32_t lh_model_adapt(const lh_model* base, const lh_adapters* adapters,
                              lh_model** out, lh_error* error);
/* Frees a model. The engines and embedders of the model can still be used and may be
 * freed later: the model stays in memory until the last of them is freed. */
LH_API void lh_model_free(lh_model* model);

typedef struct lh_model_info {
  int32_t n_vocab;
  int32_t n_ctx_train;
  int32_t n_embd;
  int32_t n_embd_out; /* length of an embedding vector */
  int32_t n_layer;
  int32_t n_swa; /* sliding window in tokens; 0: none */
  int32_t is_recurrent;
  int32_t is_hybrid;
  int32_t has_encoder;
  int32_t has_decoder;
  int32_t add_bos;
  int32_t add_eos;
  int32_t bos, eos, eot, sep, nl, pad; /* token ids; -1: not in the vocabulary */
  int32_t fim_pre, fim_mid, fim_suf;
  uint64_t size_bytes;
  uint64_t n_params;
} lh_model_info;

/* Writes the properties of a model to `out`, owned by the caller. Any thread. */
LH_API int32_t lh_model_get_info(const lh_model* model, lh_model_info* out,
                                 lh_error* error);

/* lh_model_n_meta returns the number of metadata entries. lh_model_meta copies key and
 * value of entry i into `key` and `value`, char[size] each, owned by the caller.
 * lh_model_meta also stores the required sizes (with NUL), so that the caller can retry
 * with larger buffers.
 */
LH_API int32_t lh_model_n_meta(const lh_model* model);
LH_API int32_t lh_model_meta(const lh_model* model, int32_t i, char* key, char* value,
                             int32_t size, int32_t* key_size, int32_t* value_size,
                             lh_error* error);

/* Returns the model's chat template, or NULL if it has none. The model owns the string.
 */
LH_API const char* lh_model_chat_template(const lh_model* model);

/* Properties of one token. Any thread. For a token outside the vocabulary these functions
 * return NULL, 0.0, or the value named below. lh_token_text returns the text in the
 * vocabulary, owned by the model. */
LH_API const char* lh_token_text(const lh_model* model, int32_t token);
LH_API float lh_token_score(const lh_model* model, int32_t token);
/* Returns the bits of enum llama_token_attr, or -1 for a token outside the vocabulary. */
LH_API int32_t lh_token_attr(const lh_model* model, int32_t token);
/* 1 if the token ends a generation or is a control token, else 0. */
LH_API int32_t lh_token_is_eog(const lh_model* model, int32_t token);
LH_API int32_t lh_token_is_control(const lh_model* model, int32_t token);

/* Converts text to tokens (llama_tokenize). text: UTF-8, n_text bytes. Without
 * parse_special, special tokens in the text are treated as plain text, including those
 * that llama_tokenize always parses (USER_DEFINED, such as "<think>"). tokens:
 * int32[capacity], owned by the caller. *n_tokens receives the number of tokens. If
 * this number exceeds `capacity`, nothing is written and LH_NO_SPACE is returned: call
 * again with a buffer of *n_tokens. Any thread. */
LH_API int32_t lh_tokenize(const lh_model* model, const char* text, int32_t n_text,
                           int32_t add_special, int32_t parse_special, int32_t* tokens,
                           int32_t capacity, int32_t* n_tokens, lh_error* error);

/* Converts text that continues other text to tokens: lh_tokenize with add_special and
 * parse_special 0, without the space that some tokenizers insert before a text. */
LH_API int32_t lh_tokenize_inside(const lh_model* model, const char* text, int32_t n_text,
                                  int32_t* tokens, int32_t capacity, int32_t* n_tokens,
                                  lh_error* error);

/* Converts a prompt to tokens for generation: BOS and EOS are added if the model requires
 * them, but a BOS text written by a chat template is not repeated. parse_special: 1
 * parses the texts of special tokens; 0 treats them as plain text. -1 parses them if the
 * prompt starts with a special token's text or contains literal marks; this is the case
 * for the output of chat templates. Text between the Unicode noncharacters U+FDD0 and
 * U+FDD1 (literal
 * marks, see lh_mark_literals) is never parsed. Buffer and return values as in
 * lh_tokenize. */
LH_API int32_t lh_tokenize_prompt(const lh_model* model, const char* text, int32_t n_text,
                                  int32_t parse_special, int32_t* tokens,
                                  int32_t capacity, int32_t* n_tokens, lh_error* error);

/* Copies user text for a chat message and puts literal marks around every part that would
 * be parsed as a special token. Marks in the input are replaced by U+FFFD. Text without
 * such parts is copied unchanged. Buffer and return values as in lh_tokenize: out:
 * char[capacity], no NUL. */
LH_API int32_t lh_mark_literals(const lh_model* model, const char* text, int32_t n_text,
                                char* out, int32_t capacity, int32_t* n_out,
                                lh_error* error);

/* Converts tokens to bytes (llama_detokenize). `capacity` and *n_text work as in
 * lh_tokenize. */
LH_API int32_t lh_detokenize(const lh_model* model, const int32_t* tokens,
                             int32_t n_tokens, int32_t remove_special,
                             int32_t unparse_special, char* text, int32_t capacity,
                             int32_t* n_text, lh_error* error);

/* ---- requantizing, comparing ------------------------------------------------------ */

/* Writes a copy of a model with weights of another type (llama_model_quantize with
 * allow_requantize). ftype: an enum llama_ftype; n_threads 0: all cores. Overwrites an
 * existing `out_path`. The call cannot be interrupted and takes some seconds per GB.
 * After a failure (LH_MODEL_ERROR, also when the disk is full) the caller removes the
 * partial file. */
LH_API int32_t lh_model_quantize(const char* path, const char* out_path, int32_t ftype,
                                 int32_t n_threads, lh_error* error);

/* Comparison of the predictions of two models with the same vocabulary, as in llama.cpp's
 * perplexity program with --kl-divergence. Use from one thread at a time. */
typedef struct lh_comparison lh_comparison;

/* The caller owns *out and frees it with lh_comparison_free. Both models stay in memory
 * until then. n_threads 0: libllama's default. */
LH_API int32_t lh_comparison_new(const lh_model* base, const lh_model* other,
                                 int32_t n_threads, lh_comparison** out, lh_error* error);
LH_API void lh_comparison_free(lh_comparison* comparison);

/* Evaluates both models on one chunk, int32[n_tokens] with 2 to 256 tokens, without other
 * context. Scores the predictions of the tokens in the second half of the chunk. */
LH_API int32_t lh_comparison_add(lh_comparison* comparison, const int32_t* tokens,
                                 int32_t n_tokens, lh_error* error);

/* lh_engine_abort for lh_comparison_add. Any thread. */
LH_API void lh_comparison_abort(lh_comparison* comparison, int32_t abort);

typedef struct lh_comparison_result {
  int64_t n_tokens; /* number of predictions scored */
  double base_perplexity;
  double other_perplexity;
  double mean_kl;  /* mean KL divergence (base || other) per prediction, in nats */
  double p99_kl;   /* 99th percentile (nearest rank) */
  double max_kl;   /* maximum */
  double same_top; /* share of predictions with the same most likely token */
} lh_comparison_result;

/* Writes the result for all chunks so far to `out`, owned by the caller. */
LH_API int32_t lh_comparison_get(const lh_comparison* comparison,
                                 lh_comparison_result* out, lh_error* error);

/* ---- embeddings ------------------------------------------------------------------- */

typedef enum lh_pooling {
  LH_POOLING_MEAN = 1, /* mean of the vectors of all tokens */
  LH_POOLING_CLS = 2,  /* the vector of the first token */
  LH_POOLING_LAST = 3  /* the vector of the last token */
} lh_pooling;

typedef struct lh_embedder_params {
  uint64_t struct_size; /* sizeof(lh_embedder_params) */
  int32_t pooling;      /* value of enum lh_pooling */
  int32_t normalize;    /* not 0: scale vectors to length 1 */
  /* maximum tokens per computation; for a non-causal model, maximum tokens of all texts
   * of a run together */
  int32_t n_batch;
  /* number of KV cells, if the model uses any: enough for the tokens of all texts of a
   * run */
  int32_t n_ctx;
  int32_t n_seq_max; /* maximum number of texts per run */
  int32_t n_threads; /* 0: libllama's default */
} lh_embedder_params;

/* Sets the defaults: LH_POOLING_MEAN, vectors of length 1, and runs of one text of 512
 * tokens. */
LH_API void lh_embedder_default_params(lh_embedder_params* params);

/* Embedder with its own llama_context. The model is an encoder (llama_encode) or a
 * decoder; for a model with both, LH_MODEL_ERROR is returned. Use from one thread at a
 * time. */
typedef struct lh_embedder lh_embedder;

/* The caller owns *out and frees it with lh_embedder_free. The model stays in memory
 * until then. */
LH_API int32_t lh_embedder_new(const lh_model* model, const lh_embedder_params* params,
                               lh_embedder** out, lh_error* error);
LH_API void lh_embedder_free(lh_embedder* embedder);

/* Computes the embedding vectors of several texts together. tokens:
 * int32[offsets[n_texts]]; text i is tokens[offsets[i]] .. tokens[offsets[i + 1] - 1], no
 * longer than the model's training context. out: float32[n_texts * n_embd_out], row by
 * row, owned by the caller. A row is NaN if the model computes non-finite values. With
 * `normalize`, a row of zeros also becomes NaN. After LH_DECODE_ERROR or LH_ABORTED
 * nothing has been written. */
LH_API int32_t lh_embedder_run(lh_embedder* embedder, const int32_t* tokens,
                               const int64_t* offsets, int32_t n_texts, float* out,
                               lh_error* error);

/* lh_engine_abort for lh_embedder_run. Any thread. */
LH_API void lh_embedder_abort(lh_embedder* embedder, int32_t abort);

/* ---- prefix tree ---------------------------------------------------------------- */

/* Returns the minimum length in tokens of a shared prefix whose fork saves time
 * (lh_request.fork_from). n_cells: KV cells of the longest prompt with its answer. */
LH_API int32_t lh_min_prefix_tokens(int64_t n_cells);

/* Finds the prefixes that prompts share, in O(total log n). tokens:
 * int32[offsets[n_prompts]]; prompt i is tokens[offsets[i]] .. tokens[offsets[i + 1] -
 * 1]. A prefix becomes a node if at least two children (prompts or longer nodes) continue
 * it and it adds `min_tokens` or more to its parent. No prefix includes the last token of
 * a prompt, because this token must be decoded to obtain its logits. Nodes are numbered
 * in depth-first order. The caller owns all output arrays, int32[n_prompts] each:
 *   order: prompts in depth-first order, siblings adjacent
 *   node_of: node that prompt i continues; -1: none
 *   node_parent: parent of node k (k > parent); -1: the root
 *   node_length: length of node k in tokens, counted from the start of the prompt
 *   node_prompt: index of one prompt that starts with node k
 * *n_nodes receives the number of nodes (less than n_prompts). */
LH_API int32_t lh_prefix_tree(const int32_t* tokens, const int64_t* offsets,
                              int32_t n_prompts, int32_t min_tokens, int32_t* order,
                              int32_t* node_of, int32_t* node_parent,
                              int32_t* node_length, int32_t* node_prompt,
                              int32_t* n_nodes, lh_error* error);

/* ---- engine ---------------------------------------------------------------------- */

typedef struct lh_engine lh_engine;

typedef struct lh_engine_params {
  uint64_t struct_size; /* sizeof(lh_engine_params) */
  int32_t n_ctx;        /* total number of KV cells (llama_context_params.n_ctx) */
  int32_t n_seq_max; /* maximum number of sequences at a time, held prefixes included */
  /* maximum tokens per llama_decode; answer tokens are not counted if kv_unified is 0 */
  int32_t n_batch;
  /* maximum tokens per computation. Rounded up slightly to suit n_seq_max, unless the
   * engine is deterministic and the value is below n_batch; lh_engine_info reports the
   * result */
  int32_t n_ubatch;
  int32_t n_threads;       /* threads for generation; 0: libllama's default */
  int32_t n_threads_batch; /* threads for prefill; 0: same as n_threads */
  /* 1: one pool of cells for all sequences; 0: n_ctx / n_seq_max cells for each */
  int32_t kv_unified;
  int32_t flash_attn;     /* -1: auto, 0: off, 1: on */
  int32_t offload_kqv;    /* keep KV cache and attention on the GPU, if there is one */
  int32_t swa_full;       /* keep all cells of sliding-window layers */
  int32_t type_k, type_v; /* ggml_type of the KV cache; -1: f16 */
  /* 1: the logits of a request depend neither on concurrent requests nor on how its
   * prompt is split into batches. Requires a CPU and flash attention, kv_unified 0,
   * a type_k or type_v other than f16 and f32, and n_seq_max and n_ubatch that
   * are multiples of 8. A prompt then needs 7 additional cells. See
   * docs/decisions/0012. */
  int32_t deterministic;
  /* Position settings, as in llama_context_params: */
  int32_t rope_scaling_type; /* enum llama_rope_scaling_type; -1: model's value */
  float rope_freq_base;      /* 0: model's value */
  float rope_freq_scale;     /* 0: model's value */
  float yarn_ext_factor;     /* negative: model's value; also for the next three */
  float yarn_attn_factor;
  float yarn_beta_fast;
  float yarn_beta_slow;
  int32_t yarn_orig_ctx; /* 0: model's value */
} lh_engine_params;

/* Sets the defaults: 2048 cells in one pool, one sequence, batches of 512 tokens; all
 * other fields have the defaults of libllama and the model. */
LH_API void lh_engine_default_params(lh_engine_params* params);

/* Creates an engine with its llama_context. The caller owns *out and frees it with
 * lh_engine_free. The engine keeps the model in memory. */
LH_API int32_t lh_engine_new(lh_model* model, const lh_engine_params* params,
                             lh_engine** out, lh_error* error);
/* Frees an engine with all its requests. */
LH_API void lh_engine_free(lh_engine* engine);

/* Replaces the llama_context by one with new parameters. Refused with LH_INVALID_ARGUMENT
 * while requests run. Finished and paused requests and held prefixes remain. The saved
 * state of a paused request, and the cells of held prefixes and of ended requests that
 * keep theirs, are kept if only these parameters differ: n_batch, n_ubatch, the numbers
 * of threads, n_ctx and, with kv_unified, n_seq_max, and if there is room for them.
 * Otherwise the state is computed again, a held prefix fails, and an ended request keeps
 * no cells. The old llama_context is freed first. LH_CONTEXT_ERROR: the new context could
 * not be created and the old one was restored. If the old one cannot be restored either,
 * all paused requests fail, and functions that need a llama_context return
 * LH_CONTEXT_ERROR until a later resize succeeds; results and statistics remain readable,
 * and requests can be released. */
LH_API int32_t lh_engine_resize(lh_engine* engine, const lh_engine_params* params,
                                lh_error* error);

typedef struct lh_engine_info {
  int32_t n_ctx;     /* total KV cells, as rounded by libllama */
  int32_t n_ctx_seq; /* maximum cells of one sequence */
  int32_t n_seq_max;
  int32_t n_batch;
  int32_t n_ubatch;
  int32_t kv_unified;
  int32_t n_cells_used;    /* cells used by requests, prefixes and forks now */
  int32_t n_cells_pending; /* cells that prompts in prefill still need */
  int32_t n_seq_used;      /* sequence ids in use now */
} lh_engine_info;

/* Writes sizes and use of the llama_context to `out`, owned by the caller. */
LH_API int32_t lh_engine_get_info(lh_engine* engine, lh_engine_info* out,
                                  lh_error* error);

/* Notation of a grammar. */
typedef enum lh_grammar_kind {
  LH_GRAMMAR_GBNF = 0,        /* llama.cpp's notation, with a rule `root` */
  LH_GRAMMAR_JSON_SCHEMA = 1, /* this and the following kinds need llguidance */
  LH_GRAMMAR_REGEX = 2,       /* notation of the Rust crate regex */
  LH_GRAMMAR_LARK = 3
} lh_grammar_kind;

/* Sampling settings of one request. The chain has llama.cpp's order: logit bias,
 * penalties, DRY, top-n-sigma, top-k, typical-p, top-p, min-p, XTC, temperature, draw.
 * temperature <= 0 takes the most likely token after bias, penalties, DRY and grammar.
 * choices (not together with a grammar): the answer is exactly one of the texts. The
 * answer is written in the tokens into which the tokenizer splits the text, with or
 * without a leading space, or in the tokens of lh_request's paths. Generation ends once
 * only one choice is possible, so the answer may have fewer tokens than the text. A
 * leading space is part of the tokens, not of the text. Stop texts have no effect. If a
 * choice is a prefix of a longer choice, the shorter choice is the answer if the model
 * does not continue with the longer choice. max_tokens is always sufficient if it is the
 * number of bytes of the longest choice plus 1. */
typedef struct lh_sampling_params {
  uint64_t struct_size; /* sizeof(lh_sampling_params) */
  float temperature;
  int32_t top_k; /* <= 0: off */
  float top_p;   /* 1: off */
  float min_p;   /* 0: off */
  float typical_p;
  float top_n_sigma;     /* <= 0: off */
  int32_t repeat_last_n; /* 0: off; -1: the whole sequence */
  float penalty_repeat;  /* 1: off */
  float penalty_freq;    /* 0: off */
  float penalty_present; /* 0: off */
  float xtc_probability; /* 0: off */
  float xtc_threshold;
  float dry_multiplier; /* 0: off */
  float dry_base;
  int32_t dry_allowed_length;
  int32_t dry_penalty_last_n; /* -1: the whole sequence */
  float dynatemp_range;       /* 0: off */
  float dynatemp_exponent;
  int32_t mirostat; /* 0: off, 1, 2 */
  float mirostat_tau;
  float mirostat_eta;
  uint32_t seed;
  int32_t ignore_eos; /* never draw end-of-generation tokens, except stop tokens */
  /* Minimum number of tokens of the answer. Within these tokens, end-of-generation tokens
   * and stop tokens are not drawn, and stop texts do not end the answer; only max_tokens
   * does. 0: off. Must be 0 with a grammar or choices. */
  int32_t min_tokens;
  int32_t n_stop_token_ids;
  /* int32[n_stop_token_ids]: tokens that end the answer and are not part of it. With a
   * grammar they end the answer only where the grammar allows its end. With choices,
   * stop tokens have no effect. */
  const int32_t* stop_token_ids;
  int32_t n_logit_bias;
  const int32_t* logit_bias_token; /* int32[n_logit_bias] */
  const float* logit_bias_value;   /* float32[n_logit_bias], added to the logits */
  int32_t grammar_kind;            /* lh_grammar_kind: notation of `grammar` */
  const char* grammar;             /* grammar of the answer; NULL: none */
  int32_t n_dry_breakers;
  const char* const* dry_breakers;
  int32_t n_choices;          /* 0: no choices */
  const char* const* choices; /* UTF-8 texts, none empty; the answer is one of them */
  const int32_t* choice_size; /* int32[n_choices]: sizes in bytes */
} lh_sampling_params;

/* Sets temperature 0 (the most likely token), top_k 40, min_p 0.05 and seed 1234. All
 * other samplers are off. */
LH_API void lh_sampling_default_params(lh_sampling_params* params);

/* Addresses of functions of the library llguidance (llg_* of its C API). A process
 * without Python cannot load this library; only GBNF and choices are available there. */
typedef struct lh_llguidance {
  uint64_t struct_size;         /* sizeof(lh_llguidance) */
  const void* get_version;      /* may be NULL: llguidance 1.5 to 1.7.0 lack it */
  const void* new_tokenizer_v2; /* may be NULL if new_tokenizer is not */
  const void* free_tokenizer;
  const void* constraint_init_set_defaults;
  const void* new_matcher;
  const void* clone_matcher;
  const void* free_matcher;
  const void* matcher_get_error;
  const void* matcher_compute_mask_into;
  const void* matcher_consume_tokens;
  const void* matcher_compute_ff_tokens;
  const void* matcher_is_accepting;
  const void* matcher_is_stopped;
  const void* tokenize_bytes;
  const void* new_tokenizer; /* used if new_tokenizer_v2 is NULL (1.5 and 1.6) */
} lh_llguidance;

/* Registers llguidance, which must stay loaded until the process ends. Only the first
 * call has an effect. Returns LH_INVALID_ARGUMENT if get_version names another version
 * than 1.x, or if another function is missing. Versions from 1.5 on are tested.
 * Call this function before the first request is submitted. */
LH_API int32_t lh_set_llguidance(const lh_llguidance* functions, lh_error* error);

/* Tests whether `text` (UTF-8, n_text bytes), in the model's own tokens, is a complete
 * answer under a grammar: every token is allowed, and the answer may end after the last.
 * The kind must not be LH_GRAMMAR_GBNF. *accepted: 1 or 0. LH_SAMPLER_ERROR: llguidance
 * rejects the grammar, or a schema has a number below -2^63 + 1024. */
LH_API int32_t lh_grammar_accepts(const lh_model* model, int32_t grammar_kind,
                                  const char* grammar, const char* text, int32_t n_text,
                                  int32_t* accepted, lh_error* error);

/* Checks sampling settings without an engine. Returns the error that lh_engine_submit
 * would return for them (LH_INVALID_ARGUMENT or LH_SAMPLER_ERROR). */
LH_API int32_t lh_sampling_check(const lh_model* model, const lh_sampling_params* params,
                                 lh_error* error);

/* Continuations of a prompt whose log-probabilities are computed, as a tree of tokens:
 * continuations with the same beginning share nodes. A node with children is decoded
 * once, a leaf never. */
typedef struct lh_score {
  uint64_t struct_size; /* sizeof(lh_score) */
  int32_t n_nodes;
  const int32_t* token; /* int32[n_nodes] */
  /* int32[n_nodes]: index of the parent, less than the node's own; -1: the prompt */
  const int32_t* parent;
} lh_score;

/* Token sequences of the choices of a request after its prompt, as a tree. */
typedef struct lh_choice_paths {
  uint64_t struct_size; /* sizeof(lh_choice_paths) */
  int32_t n_nodes;
  const int32_t* token; /* int32[n_nodes] */
  /* int32[n_nodes]: index of the parent, less than the node's own; -1: the prompt */
  const int32_t* parent;
  const int32_t* choice; /* int32[n_nodes]: choice that ends at the node; -1: none */
} lh_choice_paths;

/* Thought that a model writes between markers before the answer or the score of a
 * request. Afterwards the tokens of the thought are treated as a part of the prompt: the
 * answer, its max_tokens, stop texts, grammar, choices and log-probabilities, or the
 * continuations of a score, begin after the thought. Nothing is computed twice.
 *
 * The thought ends
 *   - where the model writes `end`; `after` follows;
 *   - when the model has written `budget` tokens. The model may write up to
 *     LH_MAX_THOUGHT_OVERRUN more to end a UTF-8 character. `closing` follows;
 *   - where the model ends its turn with an end-of-generation token, which is left out;
 *     `closing` follows.
 * The tokens that follow are decoded together. If a token contains the end of the marker
 * and further text, it is replaced by tokens of the marker. Exception: if `after` begins
 * with this further text, the token stays, and only the rest of `after` follows. If `end`
 * contains a control or a user-defined token, it is compared by token ids, else by the
 * text of the tokens.
 *
 * is_open == 0: the model opens a thought if its first tokens are `start`, after at most
 * LH_MAX_THOUGHT_SPACE tokens of white space. Any other first token begins the answer.
 * With a constraint, a logit bias, ignore_eos or min_tokens, and for a score, this token
 * is dropped, and the request continues as without a thought.
 *
 * KV cells that the thought needs: LH_MAX_THOUGHT_SPACE tokens and `start`, unless
 * is_open; the budget; LH_MAX_THOUGHT_OVERRUN tokens; `end`; the longer of `after` and
 * `closing`.
 */
typedef struct lh_thinking {
  uint64_t struct_size; /* sizeof(lh_thinking) */
  int32_t budget;       /* maximum tokens of the thought, its end marker included */
  int32_t is_open;      /* not 0: the prompt ends inside a thought */
  /* int32[n_start]: start marker. If the model repeats the marker at the beginning of the
   * thought, the repetition is not part of the thought's text. May be empty if is_open */
  const int32_t* start;
  int32_t n_start;
  /* int32[n_end], int32[n_closing]: neither may be empty, unless is_open and the budget
   * is 0; `closing` is then decoded with the prompt */
  const int32_t* end;
  int32_t n_end;
  const int32_t* after;
  int32_t n_after;
  const int32_t* closing;
  int32_t n_closing;
  /* settings of the thought's sampler, without a grammar and choices; NULL if is_open and
   * the budget is 0. The penalties also consider the tokens of the prompt. */
  const lh_sampling_params* sampling;
} lh_thinking;

typedef struct lh_request {
  uint64_t struct_size;  /* sizeof(lh_request) */
  int64_t id;            /* chosen by the client; unique among unreleased requests */
  const int32_t* tokens; /* int32[n_tokens]: the whole prompt */
  int32_t n_tokens;
  /* maximum tokens to generate; 0: a prefix, held after prefill; for a score, tokens
   * of the longest continuation */
  int32_t max_tokens;
  /* id of a held prefix that the prompt starts with, or of a kept request that has ended;
   * -1: none */
  int64_t fork_from;
  const lh_sampling_params* sampling; /* NULL for a prefix or a score */
  const char* const* stop;            /* stop texts, UTF-8, none empty */
  const int32_t* stop_size;           /* int32[n_stop]: sizes in bytes */
  int32_t n_stop;
  /* >= 0: number of the call whose statistics include this request, see
   * lh_engine_get_stats */
  int64_t call;
  /* prompts with a higher priority are added to a batch first; prompts of equal priority
   * are added in order of submission */
  int32_t priority;
  /* not 0: compute draft tokens for a greedy answer that repeats earlier text, so that
   * one step can yield several tokens; ignored by deterministic engines, for recurrent
   * models and in runs of selected ids */
  int32_t draft;
  /* not 0: report the first token, of the thought or the answer, as an event, see
   * lh_engine_run */
  int32_t watch;
  /* for a prefix, not 0: keep the logits after the last token. Requests with exactly
   * the same tokens may then fork from the prefix and draw their first token from
   * these logits without computing anything again */
  int32_t whole;
  /* not 0: tokens that the grammar fully determines are decoded one per step, like drawn
   * tokens. The answer is the same. For comparisons. */
  int32_t step_forced;
  /* continuations whose log-probabilities are computed instead of an answer; NULL: an
   * answer is generated. The request ends with LH_FINISH_EOG; n_decode includes its
   * decoded tokens. */
  const lh_score* score;
  /* token sequences of the choices in `sampling`; NULL: the tokenizer splits each text */
  const lh_choice_paths* paths;
  /* 0: none; 1: log-probability of each token of the answer; 1 + k: also the
   * log-probabilities of the k most likely alternatives, k <= LH_MAX_LOGPROBS. For a
   * score, the tokens are the tokens of its nodes, in their order. */
  int32_t logprobs;
  /* thought before the answer or the score; NULL: none */
  const lh_thinking* thinking;
  /* not 0: if the request ends by itself, it keeps its sequence id and its cells until it
   * is released, or until a request continues it */
  int32_t keep;
  /* for the fork_from of a kept request: number of its first tokens that the prompt
   * shares and does not compute again, see lh_client_info. A prefix in a cache with
   * streams copies the cells. Any other request takes over the sequence id and the cells,
   * and removes the cells of other tokens. */
  int32_t n_fork;
} lh_request;

/* Sets a prefix without tokens and without a parent. The client sets id, tokens and
 * n_tokens, and for an answer max_tokens and sampling. */
LH_API void lh_request_default_params(lh_request* request);

typedef enum lh_state {
  LH_STATE_PREFILL = 0,
  LH_STATE_DECODE = 1,
  LH_STATE_PAUSED = 2, /* cells are saved in host memory; no sequence id */
  LH_STATE_HELD = 3,   /* a computed prefix, ready for forks */
  LH_STATE_FINISHED = 4,
  LH_STATE_FAILED = 5
} lh_state;

typedef enum lh_finish {
  LH_FINISH_NONE = 0,
  LH_FINISH_EOG = 1,    /* the model or its grammar ended the answer */
  LH_FINISH_STOP = 2,   /* a stop text or a stop token was generated */
  LH_FINISH_LENGTH = 3, /* max_tokens tokens were generated */
  LH_FINISH_CANCELLED = 4,
  LH_FINISH_ERROR = 5
} lh_finish;

/* Submits a request: assigns a sequence id (LH_NO_SPACE if none is free), creates the
 * sampler (LH_SAMPLER_ERROR) and copies the cells of `fork_from` (llama_memory_seq_cp).
 * Decodes nothing. Requests may be submitted while others run. A finished request returns
 * its sequence id and cells immediately, unless it keeps them; its output stays until
 * lh_client_release. Tokens
 * outside the vocabulary are detected later, by llama_decode. All pointers in `request`
 * are read during the call only. */
LH_API int32_t lh_engine_submit(lh_engine* engine, const lh_request* request,
                                lh_error* error);

typedef struct lh_run_params {
  uint64_t struct_size; /* sizeof(lh_run_params) */
  const int64_t* ids;   /* int64[n_ids]: requests to run; NULL: all */
  int32_t n_ids;
  /* maximum steps, without steps that compute lost states again; <= 0: no limit */
  int32_t max_steps;
  /* return after the first step that ends later than this; <= 0: no limit */
  int32_t max_time_ms;
} lh_run_params;

/* Sets parameters for a run of all requests without limits. */
LH_API void lh_run_default_params(lh_run_params* params);

typedef struct lh_run_result {
  int32_t n_steps;     /* batches decoded */
  int32_t n_events;    /* ids written to `events` */
  int32_t n_active;    /* requests that can still take a step */
  int32_t decode_code; /* after LH_DECODE_ERROR: return value of llama_decode */
} lh_run_result;

/* Runs steps. Each step decodes one batch (one token of every decoding client, then
 * prompt chunks up to n_batch) and samples every client that received logits. Returns
 * after a step in which a request is held, finishes or fails, or in which a watched
 * request gets its first token; `events` then holds their ids (int64[capacity], owned by
 * the caller, capacity >= 1; the next run returns ids that do not fit). Also returns at a
 * limit, after lh_engine_wake, or when no work is left. Locks the engine.
 * LH_DECODE_ERROR: llama_decode rejected the batch, or aborted it without
 * lh_engine_abort. The cells of the batch are removed, and every client is in the same
 * state as before the step. Exception: a batch that fails halfway destroys recurrent
 * states, and the clients with such states start over. LH_ABORTED: see lh_engine_abort.
 */
LH_API int32_t lh_engine_run(lh_engine* engine, const lh_run_params* params,
                             int64_t* events, int32_t capacity, lh_run_result* result,
                             lh_error* error);

/* Ends a running lh_engine_run within one graph node (llama.cpp's abort callback). Later
 * runs return LH_ABORTED until the function is called with abort = 0. Any thread; takes
 * no lock. */
LH_API void lh_engine_abort(lh_engine* engine, int32_t abort);

/* Ends a running lh_engine_run after its current step, with LH_OK. If none is running,
 * the next run ends after its first step. Any thread; takes no lock. */
LH_API void lh_engine_wake(lh_engine* engine);

/* lh_client_pause moves the cells of a client to host memory and frees its sequence id
 * and cells. lh_client_resume restores them (llama_state_seq_get_data, _set_data), so
 * that no token is computed twice. */
LH_API int32_t lh_client_pause(lh_engine* engine, int64_t id, lh_error* error);
LH_API int32_t lh_client_resume(lh_engine* engine, int64_t id, lh_error* error);

/* Changes the priority of a request from its next batch on, see lh_request. A paused
 * request keeps the new priority when it is resumed. */
LH_API int32_t lh_client_set_priority(lh_engine* engine, int64_t id, int32_t priority,
                                      lh_error* error);

/* Ends a client. reason: LH_FINISH_CANCELLED keeps the text generated so far;
 * LH_FINISH_ERROR marks the client as failed with `message`, which is copied. */
LH_API int32_t lh_client_end(lh_engine* engine, int64_t id, int32_t reason,
                             const char* message, lh_error* error);

/* End of a thought. */
typedef enum lh_thinking_closed {
  LH_THINKING_OPEN = 0,     /* the thought has not ended, or there is none */
  LH_THINKING_BY_MODEL = 1, /* the model wrote the end marker */
  LH_THINKING_BY_FORCE = 2  /* the budget was spent, or the model ended its turn */
} lh_thinking_closed;

typedef struct lh_client_info {
  int32_t state;  /* lh_state */
  int32_t finish; /* lh_finish */
  int32_t n_prompt;
  int32_t n_reused; /* prompt tokens copied from fork_from */
  /* KV cells of the client without shared cells; if paused: cells that it needs to
   * resume */
  int32_t n_cells;
  int32_t n_pending;   /* tokens still to decode */
  int32_t n_generated; /* tokens generated, without the end-of-generation token */
  uint32_t seed;
  const int32_t* tokens; /* int32[n_generated] */
  const char* text;      /* valid UTF-8 up to, not including, a stop text */
  int32_t n_text;        /* number of bytes that are final */
  /* lh_status of the error that the engine found, such as LH_SAMPLER_ERROR for a
   * constraint that cannot be followed; LH_OK: none */
  int32_t code;
  const char* message; /* error message; "" without an error */
  /* 1: the answer ended by itself: with LH_FINISH_EOG, or with LH_FINISH_STOP and a text
   * that matches the grammar, if any */
  int32_t complete;
  /* Resources that the client used; lh_stats also includes them. */
  int32_t n_prefill;
  int32_t n_decode;
  int32_t n_draft;
  int32_t n_pauses;
  double t_prefill_s; /* share of the time of its batches, in proportion to its tokens */
  double t_decode_s;
  /* from lh_engine_submit to the first token of the thought or the answer; 0: none yet
   */
  double t_first_s;
  /* Log-probabilities (natural logarithm) under the model itself: before bias, grammar,
   * penalties and temperature. */
  int32_t n_scores;     /* nodes of lh_request's score */
  const double* scores; /* float64[n_scores]; NaN: not computed */
  int32_t n_logprobs;   /* tokens of the answer, nodes of the score; -1: not requested */
  int32_t n_top;        /* alternatives per token */
  const double* logprobs;     /* float64[n_logprobs]; NaN: no logits row was computed */
  const int32_t* top_tokens;  /* int32[n_logprobs, n_top], most likely first; -1: none */
  const double* top_logprobs; /* float64[n_logprobs, n_top] */
  /* int32[n_logprobs], of a score with alternatives: the rank of each node's token among
   * all tokens, 1 for the most likely one; 0: not computed. NULL for answers. */
  const int32_t* ranks;
  /* Thought: NULL if there is none so far, else valid UTF-8 without markers. n_prompt,
   * n_generated, tokens and text do not include it. */
  const char* thinking;
  int32_t n_thinking;        /* number of bytes that are final */
  int32_t n_thinking_tokens; /* tokens that the model wrote, its end marker included */
  int32_t thinking_closed;   /* lh_thinking_closed */
  /* Kept cells of a request that has ended, see lh_request's keep. Another request may
   * continue the first n of these tokens, least_kept <= n <= n_kept. */
  const int32_t* kept; /* int32[n_kept]: prompt, thought and answer */
  int32_t n_kept;      /* 0: none */
  int32_t least_kept;
} lh_client_info;

/* Writes the state and the output of a client to `out`. The engine owns the pointers in
 * `out`; they are valid until the next engine call other than lh_client_get and
 * lh_client_read. */
LH_API int32_t lh_client_get(lh_engine* engine, int64_t id, lh_client_info* out,
                             lh_error* error);

typedef struct lh_piece {
  const char* text;      /* final, valid UTF-8 without a terminating NUL */
  int32_t n_text;        /* bytes */
  const int32_t* tokens; /* int32[n_tokens] */
  int32_t n_tokens;
  int32_t n_bytes_now; /* bytes of the whole answer so far, n_bytes of the next call */
  int32_t n_tokens_now;
} lh_piece;

/* Returns the part of an answer after its first n_bytes bytes and n_tokens tokens: 0 and
 * 0 for the start, or n_bytes_now and n_tokens_now of an earlier piece. The text of a
 * choice is available only once the request has finished. Pointers in `out` are valid as
 * long as pointers from lh_client_get. */
LH_API int32_t lh_client_read(lh_engine* engine, int64_t id, int32_t n_bytes,
                              int32_t n_tokens, lh_piece* out, lh_error* error);

/* Removes a request or a held prefix. A running request is ended first. */
LH_API int32_t lh_client_release(lh_engine* engine, int64_t id, lh_error* error);

/* Ends and removes every request and empties the KV cache. */
LH_API int32_t lh_engine_reset(lh_engine* engine, lh_error* error);

/* Returns llama_memory_seq_pos_max of a sequence id: -1 if it has no cells. */
LH_API int32_t lh_engine_seq_pos_max(lh_engine* engine, int32_t seq_id);

typedef struct lh_stats {
  int64_t n_prefill;   /* prompt tokens decoded */
  int64_t n_reused;    /* prompt tokens copied from a held prefix */
  int64_t n_decode;    /* generated tokens decoded */
  int64_t n_generated; /* tokens sampled and kept */
  int64_t n_draft;     /* drafted tokens among n_generated, see lh_request */
  int64_t n_batches;   /* llama_decode calls that succeeded */
  int64_t n_failed_decodes;
  int64_t n_lost; /* decodes that failed partway and destroyed all recurrent states */
  int64_t n_pauses;
  /* maximum number of KV cells in use in any batch, by all requests */
  int64_t n_cells_max;
  int64_t n_clients;  /* clients per batch, summed over batches */
  double t_prefill_s; /* time in llama_decode, divided in proportion to tokens */
  double t_decode_s;
  double t_sample_s;  /* divided equally among the clients of a batch */
  int64_t n_thinking; /* tokens that models wrote in thoughts; not in n_generated */
  int64_t n_thoughts; /* thoughts that have ended */
  int64_t n_thoughts_closed; /* thoughts that were closed by force */
} lh_stats;

/* Writes statistics to `out`. call < 0: statistics of all requests since the engine was
 * created. call >= 0: statistics of the requests with that call number and of every batch
 * that contains at least one of them; zeros for an unknown number. */
LH_API int32_t lh_engine_get_stats(lh_engine* engine, int64_t call, lh_stats* out,
                                   lh_error* error);

/* Deletes the statistics of a call. The statistics of this call number no longer include
 * requests that still exist. */
LH_API int32_t lh_engine_forget_call(lh_engine* engine, int64_t call, lh_error* error);

#ifdef __cplusplus
}
#endif

#endif /* LLAMAHERD_H */
