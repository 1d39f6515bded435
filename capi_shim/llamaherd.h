/*
 * llamaherd.h: the step-level engine of llamaherd, a plain C (C99) interface.
 *
 * Mechanism only: tokens, sequences, positions, logits and samplers. Which prompt runs
 * when, which prefix is shared and what happens after a failure is decided by the caller.
 * For one call that does all of it, see newrllama_capi.h.
 *
 * Rules that hold for every function
 *   - Returns LH_OK or another lh_status; `error`, where given, then holds a message that
 *     names the value at fault. `error` may be NULL and never has to be freed.
 *   - Never throws, never ends the process on bad input.
 *   - Pointers given in are read during the call only, unless the comment says otherwise.
 *   - In a process that was forked after a model was loaded, every function fails with
 *     LH_FORKED, because the threads that compute did not come along. Freeing does
 *     nothing there.
 *   - Engine functions may be called from several threads; they take the engine's lock.
 *     lh_engine_abort and lh_engine_wake do not wait for it. Freeing is the caller's
 *     business: no call may be running on an object that is being freed.
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
  LH_INVALID_ARGUMENT = 1, /* a value the function cannot take; nothing was changed */
  LH_NOT_FOUND = 2,        /* no such request, key or file */
  LH_MODEL_ERROR = 3,      /* the model could not be loaded or cannot do this */
  LH_CONTEXT_ERROR = 4,    /* the llama_context could not be created */
  LH_NO_SPACE = 5,         /* no free sequence id or no free KV cells now */
  LH_DECODE_ERROR = 6,     /* llama_decode refused the batch; no client advanced */
  LH_ABORTED = 7,          /* lh_engine_abort was called; no client lost anything */
  LH_SAMPLER_ERROR = 8,    /* a sampler could not be made, e.g. a bad grammar */
  LH_INTERNAL = 9,         /* an exception inside; the message has its text */
  LH_FORKED = 10           /* in a child that was forked after a model was loaded */
} lh_status;

typedef struct lh_error {
  int32_t code; /* an lh_status */
  char message[1024];
} lh_error;

/* ---- sizes that drivers of the engine plan with -------------------------------------
 */

enum {
  LH_CELL_BLOCK = 256, /* libllama rounds the KV cells of a stream up to multiples */
  LH_UNIFORM_ROWS = 8, /* a deterministic engine computes so many sequences together */
  LH_AMX_ROWS = 32,    /* rows of a batch in a block, see lh_has_amx */
  LH_MAX_PREFIX_DEPTH = 4, /* of shared prefixes, each within the one before */
  LH_MAX_LOGPROBS = 1024   /* most likely tokens of a place whose probability is kept */
};

/* ---- library ------------------------------------------------------------------- */

/* Starts libllama's backends and takes over its log: lines are kept in a short buffer
 * (see lh_log_drain) instead of going to stderr. With chain != 0 each line also goes to
 * the callback that was set before. Calling it again is harmless. */
LH_API void lh_backend_init(int32_t chain);
LH_API void lh_backend_free(void);

/* Copies buffered log lines of libllama, oldest first, each ended by a newline, into
 * `buffer` and forgets them. Returns the number of bytes written, without the NUL. */
LH_API int32_t lh_log_drain(char* buffer, int32_t size);

/* Sizes of the structs that libllama takes by value, as seen by the compiler, and the
 * defaults that the header promised: what a test compares with the loaded library.
 * out: int32[4] = sizeof model params, context params, batch; default n_batch. */
LH_API void lh_abi_probe(int32_t* out);

/* Text of ggml_commit() of the loaded library. Lives as long as the library. */
LH_API const char* lh_ggml_commit(void);

/* LH_FORKED in a child that was forked after a model was loaded, LH_OK elsewhere. */
LH_API int32_t lh_process_check(lh_error* error);

/* 1 if ggml computes on llamaherd's threads from now on, which stay fast where other
 * programs are busy. 0 if it was compiled without OpenMP, or by a compiler with another
 * OpenMP library than GCC's, or this is not Linux. */
LH_API int32_t lh_own_threads(void);

/* 1 if the loaded libllama can use a GPU. */
LH_API int32_t lh_supports_gpu_offload(void);

/* 1 if the loaded libllama multiplies by AMX, the matrix instructions of newer Intel
 * processors. It then computes rows of a batch in blocks of 32. */
LH_API int32_t lh_has_amx(void);

/* The seed of client number `index` of a call with seed `seed` (splitmix64 of both):
 * what each client's generator starts from, whatever runs beside it. */
LH_API uint32_t lh_derive_seed(uint32_t seed, uint64_t index);

/* ---- model --------------------------------------------------------------------- */

typedef struct lh_model lh_model;

/* A LoRA adapter and its factor. */
typedef struct lh_lora {
  const char* path; /* a GGUF file, which the model then owns what was loaded from; or */
  void* adapter;    /* NULL, or a `struct llama_adapter_lora *` that someone else owns and
                       keeps alive as long as engines of the model run; `path` is not read */
  float scale;      /* finite; 0: as if it were not there, but a file is checked */
} lh_lora;

/* What is added to a model's weights in all engines that are made of it. */
typedef struct lh_adapters {
  const lh_lora* lora;
  int32_t n_lora;
  /* A control vector, as llama_set_adapter_cvec takes it: float32[n_cvec], copied; the
   * model's n_embd numbers for each layer from 1 on. NULL: none. */
  const float* cvec;
  uint64_t n_cvec;
  int32_t cvec_first_layer, cvec_last_layer; /* those that it is added to */
} lh_adapters;

typedef struct lh_model_params {
  int32_t n_gpu_layers; /* layers to keep in video memory; negative: all */
  int32_t use_mmap;
  int32_t use_mlock;
  int32_t vocab_only;
  int32_t check_tensors;       /* validate every tensor's data while loading */
  uint64_t memory_bytes;       /* refuse a model with more bytes of tensors, its adapters'
                                  included; 0: load any */
  const lh_adapters* adapters; /* read during the call only; NULL: none */
} lh_model_params;

LH_API void lh_model_default_params(lh_model_params* params);

typedef struct lh_gguf_info {
  uint64_t file_bytes;   /* of all parts */
  uint64_t tensor_bytes; /* of all tensors: what the model needs in memory at least */
  int64_t n_tensors;
  int32_t n_parts;       /* files that the model is split into; 1: it is whole */
  int32_t i_part;        /* which of them this is, from 0 */
  char architecture[64]; /* such as "llama"; "" if the file does not say */
} lh_gguf_info;

/* Checks a GGUF file by its header, in milliseconds: magic and version, that counts,
 * texts and tensors lie within the file, and the same for the other files of a model that
 * is split. A file that is cut off or damaged is LH_MODEL_ERROR. It does not look at the
 * tensors' numbers (see check_tensors), nor at what only a loading model can judge. */
LH_API int32_t lh_gguf_check(const char* path, lh_gguf_info* out, lh_error* error);

/* Loads a GGUF file (llama_model_load_from_file) after lh_gguf_check, and the files of
 * its adapters (llama_adapter_lora_init) after a check of theirs: one that is damaged, no
 * LoRA adapter or made for another model is LH_MODEL_ERROR. The caller owns *out. */
LH_API int32_t lh_model_load(const char* path, const lh_model_params* params,
                             lh_model** out, lh_error* error);

/* Wraps a `struct llama_model *` that someone else owns and keeps alive. adapters: NULL,
 * or with what it is to compute; none of them by its path. */
LH_API int32_t lh_model_borrow(void* llama_model, const lh_adapters* adapters,
                               lh_model** out, lh_error* error);
/* What was made on the model may still be used, and be freed later: the model stays in
 * memory as long. */
LH_API void lh_model_free(lh_model* model);

typedef struct lh_model_info {
  int32_t n_vocab;
  int32_t n_ctx_train;
  int32_t n_embd;
  int32_t n_embd_out; /* of the vectors that it makes of texts */
  int32_t n_layer;
  int32_t n_swa; /* sliding window in tokens; 0: none */
  int32_t is_recurrent;
  int32_t is_hybrid;
  int32_t has_encoder;
  int32_t has_decoder;
  int32_t add_bos;
  int32_t add_eos;
  int32_t bos, eos, eot, sep, nl, pad; /* token ids, -1: the model has none */
  int32_t fim_pre, fim_mid, fim_suf;
  uint64_t size_bytes;
  uint64_t n_params;
} lh_model_info;

LH_API int32_t lh_model_get_info(const lh_model* model, lh_model_info* out,
                                 lh_error* error);

/* Metadata key and value number i as text. `size` bytes are there for each; the needed
 * sizes (with NUL) are stored, so that a caller can call again with more room. */
LH_API int32_t lh_model_n_meta(const lh_model* model);
LH_API int32_t lh_model_meta(const lh_model* model, int32_t i, char* key, char* value,
                             int32_t size, int32_t* key_size, int32_t* value_size,
                             lh_error* error);

/* The model's own chat template, NULL if it has none. Lives as long as the model. */
LH_API const char* lh_model_chat_template(const lh_model* model);

LH_API const char* lh_token_text(const lh_model* model, int32_t token);
LH_API float lh_token_score(const lh_model* model, int32_t token);
/* Bits of enum llama_token_attr; -1 for a token outside the vocabulary. */
LH_API int32_t lh_token_attr(const lh_model* model, int32_t token);
LH_API int32_t lh_token_is_eog(const lh_model* model, int32_t token);
LH_API int32_t lh_token_is_control(const lh_model* model, int32_t token);

/* Text to tokens (llama_tokenize). text: UTF-8, n_text bytes. Without parse_special the
 * texts of special tokens stay text, also those that llama_tokenize always parses
 * (USER_DEFINED, such as "<think>"). tokens: int32[capacity].
 * *n_tokens gets the number of tokens; if that is more than `capacity`, nothing was
 * written and LH_NO_SPACE is returned: call again with room for *n_tokens. */
LH_API int32_t lh_tokenize(const lh_model* model, const char* text, int32_t n_text,
                           int32_t add_special, int32_t parse_special, int32_t* tokens,
                           int32_t capacity, int32_t* n_tokens, lh_error* error);

/* Tokens of text that follows on other text: as lh_tokenize with add_special and
 * parse_special 0, but without the space that some tokenizers put before a text. */
LH_API int32_t lh_tokenize_inside(const lh_model* model, const char* text, int32_t n_text,
                                  int32_t* tokens, int32_t capacity, int32_t* n_tokens,
                                  lh_error* error);

/* Tokens of a prompt, as generation wants them: BOS and EOS added if the model asks for
 * them, a BOS text that a chat template wrote not doubled. parse_special: 1 parses the
 * texts of special tokens, 0 takes them as plain text, -1 parses them if the prompt
 * starts with the text of a special token or has literal marks, as chat templates produce
 * it. Stretches between the Unicode noncharacters U+FDD0 and U+FDD1 (literal marks, see
 * lh_mark_literals) are never parsed. Same protocol as lh_tokenize. */
LH_API int32_t lh_tokenize_prompt(const lh_model* model, const char* text, int32_t n_text,
                                  int32_t parse_special, int32_t* tokens,
                                  int32_t capacity, int32_t* n_tokens, lh_error* error);

/* Copies text that a user put into a chat message, with literal marks around everything
 * that would be parsed as a special token; marks that are in it become U+FFFD. Without
 * such stretches the copy equals the text. Same protocol: out: char[capacity], no NUL. */
LH_API int32_t lh_mark_literals(const lh_model* model, const char* text, int32_t n_text,
                                char* out, int32_t capacity, int32_t* n_out,
                                lh_error* error);

/* Tokens to bytes (llama_detokenize); same protocol for `capacity` and *n_text. */
LH_API int32_t lh_detokenize(const lh_model* model, const int32_t* tokens,
                             int32_t n_tokens, int32_t remove_special,
                             int32_t unparse_special, char* text, int32_t capacity,
                             int32_t* n_text, lh_error* error);

/* ---- requantizing, comparing ------------------------------------------------------ */

/* Writes a copy of a model with its weights in another type (llama_model_quantize with
 * allow_requantize). ftype: an enum llama_ftype; n_threads 0: all cores. An `out_path`
 * that exists is overwritten. It cannot be interrupted, and takes some seconds per GB.
 * After a failure (LH_MODEL_ERROR, also when the disk is full) the caller removes what is
 * there. */
LH_API int32_t lh_model_quantize(const char* path, const char* out_path, int32_t ftype,
                                 int32_t n_threads, lh_error* error);

/* Compares what two models with one vocabulary predict, as llama.cpp's perplexity program
 * does with --kl-divergence. One thread at a time. */
typedef struct lh_comparison lh_comparison;

LH_API int32_t lh_comparison_new(const lh_model* base, const lh_model* other,
                                 int32_t n_threads, lh_comparison** out, lh_error* error);
LH_API void lh_comparison_free(lh_comparison* comparison);

/* Has both models read a chunk, int32[n_tokens] with 2 to 256 tokens, by itself, and
 * scores their predictions of the tokens in its second half. */
LH_API int32_t lh_comparison_add(lh_comparison* comparison, const int32_t* tokens,
                                 int32_t n_tokens, lh_error* error);

/* As lh_engine_abort, for lh_comparison_add; from any thread. */
LH_API void lh_comparison_abort(lh_comparison* comparison, int32_t abort);

typedef struct lh_comparison_result {
  int64_t n_tokens; /* predictions scored */
  double base_perplexity;
  double other_perplexity;
  double mean_kl;  /* KL divergence (base || other) of a prediction, nats */
  double p99_kl;   /* 99th percentile (nearest rank) */
  double max_kl;   /* largest */
  double same_top; /* share of predictions whose most likely token is the same */
} lh_comparison_result;

LH_API int32_t lh_comparison_get(const lh_comparison* comparison,
                                 lh_comparison_result* out, lh_error* error);

/* ---- embeddings ------------------------------------------------------------------- */

typedef enum lh_pooling {
  LH_POOLING_MEAN = 1, /* the mean of all tokens' vectors */
  LH_POOLING_CLS = 2,  /* that of the first token */
  LH_POOLING_LAST = 3  /* that of the last one */
} lh_pooling;

typedef struct lh_embedder_params {
  int32_t pooling;   /* an lh_pooling */
  int32_t normalize; /* not 0: vectors of length 1 */
  int32_t n_batch;   /* tokens that are computed at once; unless the model is causal, of
                        all texts of a run */
  int32_t n_ctx;     /* KV cells, if the model keeps any: tokens of all texts of a run */
  int32_t n_seq_max; /* texts of a run */
  int32_t n_threads; /* 0: libllama's default */
} lh_embedder_params;

/* Makes vectors of texts, on a llama_context of its own. The model is an encoder
 * (llama_encode) or a decoder; one that has both is LH_MODEL_ERROR. One thread at a
 * time. */
typedef struct lh_embedder lh_embedder;

LH_API int32_t lh_embedder_new(const lh_model* model, const lh_embedder_params* params,
                               lh_embedder** out, lh_error* error);
LH_API void lh_embedder_free(lh_embedder* embedder);

/* Makes the vectors of texts, together. tokens: int32[offsets[n_texts]], text i is
 * tokens[offsets[i]] .. tokens[offsets[i + 1] - 1], with as many tokens as the model was
 * trained for at most. out: float32[n_texts * n_embd_out], row by row; a row of NaN where
 * the model computes numbers that are not finite, or none but zeroes that are to have
 * length
 * 1. After LH_DECODE_ERROR or LH_ABORTED nothing was written. */
LH_API int32_t lh_embedder_run(lh_embedder* embedder, const int32_t* tokens,
                               const int64_t* offsets, int32_t n_texts, float* out,
                               lh_error* error);

/* As lh_engine_abort, for lh_embedder_run; from any thread. */
LH_API void lh_embedder_abort(lh_embedder* embedder, int32_t abort);

/* ---- prefix tree ---------------------------------------------------------------- */

/* The fewest tokens with which a shared prefix is worth a fork (lh_request.fork_from),
 * where the longest prompt and its answer take n_cells. */
LH_API int32_t lh_min_prefix_tokens(int64_t n_cells);

/* Finds the prefixes that prompts share. tokens: int32[offsets[n_prompts]], prompt i is
 * tokens[offsets[i]] .. tokens[offsets[i + 1] - 1]. A prefix becomes a node if at least
 * two children (prompts or longer nodes) continue it and it adds `min_tokens` or more to
 * its parent; its length leaves every prompt at least one token of its own, because a
 * prompt's last token must be decoded for its logits.
 *   order:       int32[n_prompts]  prompts in depth-first order, siblings adjacent
 *   node_of:     int32[n_prompts]  node that prompt i continues, -1: none
 *   node_parent: int32[n_prompts]  parent of node k (k > parent), -1: the root
 *   node_length: int32[n_prompts]  its length in tokens, from the first token
 *   node_prompt: int32[n_prompts]  a prompt that starts with it
 *   *n_nodes:    number of nodes (less than n_prompts)
 * Nodes are numbered in depth-first order. O(total log n). */
LH_API int32_t lh_prefix_tree(const int32_t* tokens, const int64_t* offsets,
                              int32_t n_prompts, int32_t min_tokens, int32_t* order,
                              int32_t* node_of, int32_t* node_parent,
                              int32_t* node_length, int32_t* node_prompt,
                              int32_t* n_nodes, lh_error* error);

/* ---- engine ---------------------------------------------------------------------- */

typedef struct lh_engine lh_engine;

typedef struct lh_engine_params {
  int32_t n_ctx;     /* KV cells in all (llama_context_params.n_ctx) */
  int32_t n_seq_max; /* sequences that can be there at once, held prefixes included */
  int32_t n_batch;   /* most tokens in one llama_decode; those of answers come on top if
                        kv_unified is 0 */
  int32_t n_ubatch;  /* most tokens computed at once, rounded up a little to suit
                        n_seq_max, unless deterministic and below n_batch; lh_engine_info
                        has the result */
  int32_t n_threads; /* threads for generation; 0: libllama's default */
  int32_t n_threads_batch; /* threads for prefill; 0: as n_threads */
  int32_t kv_unified;      /* 1: one pool of cells; 0: n_ctx / n_seq_max for each */
  int32_t flash_attn;      /* -1: auto, 0: off, 1: on */
  int32_t offload_kqv;     /* KV cache and attention on the GPU, if there is one */
  int32_t swa_full;        /* keep all cells of sliding-window layers */
  int32_t type_k, type_v;  /* ggml_type of the KV cache; -1: f16 */
  int32_t deterministic;   /* 1: the logits of a request do not depend on what runs beside
                              it, nor on how its prompt is cut into batches. On a CPU, with
                              flash attention, kv_unified 0, type_k unequal to type_v or
                              both quantized; n_seq_max and n_ubatch multiples of 8. A
                              prompt then needs 7 cells more. See docs/decisions/0012. */
  /* Where tokens stand, as llama_context_params have it: */
  int32_t rope_scaling_type; /* enum llama_rope_scaling_type; -1: the model's */
  float rope_freq_base;      /* 0: the model's */
  float rope_freq_scale;     /* 0: the model's */
  float yarn_ext_factor;     /* this and the next three: negative: the model's */
  float yarn_attn_factor;
  float yarn_beta_fast;
  float yarn_beta_slow;
  int32_t yarn_orig_ctx; /* 0: the model's */
} lh_engine_params;

LH_API void lh_engine_default_params(lh_engine_params* params);

/* Creates a llama_context and all that runs on it. */
LH_API int32_t lh_engine_new(lh_model* model, const lh_engine_params* params,
                             lh_engine** out, lh_error* error);
LH_API void lh_engine_free(lh_engine* engine);

/* Puts a new llama_context in place of the present one, with other sizes or whatever else
 * params say. Requests that have ended stay, and so do paused ones: what was saved of
 * them is kept if only n_batch, n_ubatch, numbers of threads and, with kv_unified, n_ctx
 * and n_seq_max differ (without it n_ctx alone), else it is computed again. While others
 * run or are held it is refused (LH_INVALID_ARGUMENT). The old llama_context is freed
 * first. LH_CONTEXT_ERROR: no such context could be made; there is one as before again.
 * Should not even that be possible, all paused requests have failed, and until a later
 * resize finds the memory all functions that need a llama_context return
 * LH_CONTEXT_ERROR; results and statistics can still be read, requests released. */
LH_API int32_t lh_engine_resize(lh_engine* engine, const lh_engine_params* params,
                                lh_error* error);

typedef struct lh_engine_info {
  int32_t n_ctx;     /* KV cells in all, as libllama rounded them */
  int32_t n_ctx_seq; /* most cells that one sequence may have */
  int32_t n_seq_max;
  int32_t n_batch;
  int32_t n_ubatch;
  int32_t kv_unified;
  int32_t n_cells_used;    /* cells that requests, prefixes and forks take up now */
  int32_t n_cells_pending; /* cells that prompts being prefilled have yet to take */
  int32_t n_seq_used;      /* sequence ids in use now */
} lh_engine_info;

LH_API int32_t lh_engine_get_info(lh_engine* engine, lh_engine_info* out,
                                  lh_error* error);

/* Sampling settings of one request. The order of the chain is llama.cpp's: logit bias,
 * penalties, DRY, top-n-sigma, top-k, typical-p, top-p, min-p, XTC, temperature, draw.
 * temperature <= 0 takes the most likely token after bias, penalties, DRY and grammar.
 *
 * choices, which exclude a grammar: the answer is one of the texts, to the byte, written
 * in the tokenizer's own cuts of the text with a space before it or without, or in those
 * of lh_request's paths. It is there as soon as only one is left, so that its tokens may
 * be fewer than the text has; the space is among them and not in the text. Stop texts do
 * not end it. One that a longer one starts with is the answer if the model goes on in any
 * other way than to that. max_tokens of a choice's bytes and 1 are always enough. */
typedef enum lh_grammar_kind {
  LH_GRAMMAR_GBNF = 0,        /* llama.cpp's notation, with a rule `root` */
  LH_GRAMMAR_JSON_SCHEMA = 1, /* this and the next need llguidance */
  LH_GRAMMAR_REGEX = 2,       /* in the notation of Rust's crate regex */
  LH_GRAMMAR_LARK = 3
} lh_grammar_kind;

typedef struct lh_sampling_params {
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
  int32_t mirostat;           /* 0: off, 1, 2 */
  float mirostat_tau;
  float mirostat_eta;
  uint32_t seed;
  int32_t ignore_eos; /* end-of-generation tokens are never drawn */
  int32_t n_logit_bias;
  const int32_t* logit_bias_token; /* int32[n_logit_bias] */
  const float* logit_bias_value;   /* float32[n_logit_bias], added to the logits */
  int32_t grammar_kind;            /* lh_grammar_kind: what `grammar` is written in */
  const char* grammar;             /* what the answer has to follow, NULL: nothing */
  int32_t n_dry_breakers;
  const char* const* dry_breakers;
  int32_t n_choices;          /* 0: the answer is free, or follows the grammar */
  const char* const* choices; /* UTF-8 texts, none empty, of which the answer is one */
  const int32_t* choice_size; /* int32[n_choices]: their sizes in bytes */
} lh_sampling_params;

LH_API void lh_sampling_default_params(lh_sampling_params* params);

/* Functions of the library llguidance, llg_* of its C API, by their addresses. A process
 * without Python cannot load it: there GBNF and choices are all there is. */
typedef struct lh_llguidance {
  uint64_t struct_size; /* sizeof(lh_llguidance) */
  const void* get_version;
  const void* new_tokenizer_v2;
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
} lh_llguidance;

/* Hands llguidance over, which must stay loaded; the first one counts. One that is older
 * than 1.9, or 2 and later, is LH_INVALID_ARGUMENT. No request may be there yet. */
LH_API int32_t lh_set_llguidance(const lh_llguidance* functions, lh_error* error);

/* Whether `text` (UTF-8, n_text bytes), cut into tokens as the model does it, is an
 * answer that follows a grammar: each token may come, and the text may end with the last.
 * The kind must not be LH_GRAMMAR_GBNF. *accepted: 1 or 0. LH_SAMPLER_ERROR: llguidance
 * does not take the grammar. */
LH_API int32_t lh_grammar_accepts(const lh_model* model, int32_t grammar_kind,
                                  const char* grammar, const char* text, int32_t n_text,
                                  int32_t* accepted, lh_error* error);

/* Whether requests may have these settings: what lh_engine_submit would say about them
 * (LH_INVALID_ARGUMENT, LH_SAMPLER_ERROR), before there is an engine. */
LH_API int32_t lh_sampling_check(const lh_model* model, const lh_sampling_params* params,
                                 lh_error* error);

/* Continuations of a prompt whose log-probabilities are asked for, as a tree of tokens:
 * what begin alike share nodes. A node with children is decoded once, others never. */
typedef struct lh_score {
  int32_t n_nodes;
  const int32_t* token;  /* int32[n_nodes] */
  const int32_t* parent; /* int32[n_nodes]: less than the node's own number; -1: the
                            prompt */
} lh_score;

/* The ways to write the choices of a request behind its prompt, as a tree of tokens. */
typedef struct lh_choice_paths {
  int32_t n_nodes;
  const int32_t* token;  /* int32[n_nodes] */
  const int32_t* parent; /* int32[n_nodes]: less than the node's own number; -1: the
                            prompt */
  const int32_t* choice; /* int32[n_nodes]: which choice ends with the node; -1: none */
} lh_choice_paths;

typedef struct lh_request {
  int64_t id;            /* the caller's name for it; unique among those not released */
  const int32_t* tokens; /* int32[n_tokens]: the whole prompt */
  int32_t n_tokens;
  int32_t max_tokens; /* tokens to generate at most; 0: a prefix, held once computed; of a
                         score those of the longest continuation */
  int64_t fork_from;  /* id of a held prefix that this prompt starts with; -1: none */
  const lh_sampling_params* sampling; /* NULL for a prefix or a score */
  const char* const* stop;            /* stop texts, UTF-8, none empty */
  const int32_t* stop_size;           /* int32[n_stop]: their sizes in bytes */
  int32_t n_stop;
  int64_t call;     /* at least 0: number under which its batches are counted, see
                       lh_engine_get_stats */
  int32_t priority; /* where prompts share a batch's room, higher ones come first, and
                       among equals those that were submitted first */
  int32_t draft;    /* not 0: a greedy answer that repeats itself may take several tokens
                       a step; ignored by deterministic engines, recurrent models, and in
                       runs of chosen ids */
  int32_t watch;    /* not 0: its first token is an event, see lh_engine_run */
  int32_t whole;    /* of a prefix, not 0: the logits after its last token are kept, and
                       prompts of the very same tokens may fork from it: their first
                       tokens are drawn from these, and nothing is computed twice */
  int32_t step_forced;   /* not 0: tokens that the grammar leaves no choice about are
                            computed one a step, as if they were drawn; the answer is the
                            same. For comparisons. */
  const lh_score* score; /* generate nothing, but score this; NULL: generate. It ends with
                            LH_FINISH_EOG, what is decoded of it counts in n_decode. */
  const lh_choice_paths* paths; /* how the choices of `sampling` are written; NULL: as the
                                   tokenizer cuts them by themselves */
  int32_t logprobs; /* of an answer: 0: none; 1: the log-probability of each token; 1 + k:
                       and the k most likely tokens in its place, k <= LH_MAX_LOGPROBS */
} lh_request;

typedef enum lh_state {
  LH_STATE_PREFILL = 0,
  LH_STATE_DECODE = 1,
  LH_STATE_PAUSED = 2, /* its cells are saved in host memory, it has no sequence id */
  LH_STATE_HELD = 3,   /* a prefix, computed, ready to be forked from */
  LH_STATE_FINISHED = 4,
  LH_STATE_FAILED = 5
} lh_state;

typedef enum lh_finish {
  LH_FINISH_NONE = 0,
  LH_FINISH_EOG = 1,    /* the model ended its answer, or its grammar did */
  LH_FINISH_STOP = 2,   /* a stop text was generated */
  LH_FINISH_LENGTH = 3, /* max_tokens were generated */
  LH_FINISH_CANCELLED = 4,
  LH_FINISH_ERROR = 5
} lh_finish;

/* Takes a request in: gives it a sequence id (LH_NO_SPACE if all are in use), builds its
 * sampler (LH_SAMPLER_ERROR) and copies the cells of `fork_from` (llama_memory_seq_cp).
 * Nothing is decoded yet. Requests may be submitted while others run. A request that
 * ends gives its sequence id and cells back at once; its output stays until
 * lh_client_release. Tokens are not checked against the vocabulary: llama_decode does. */
LH_API int32_t lh_engine_submit(lh_engine* engine, const lh_request* request,
                                lh_error* error);

typedef struct lh_run_params {
  const int64_t* ids; /* int64[n_ids]: run only these; NULL: all */
  int32_t n_ids;
  int32_t max_steps; /* those that make up for lost states don't count; <= 0: no limit */
  int32_t max_time_ms; /* control comes back after the step that passes it; <= 0: none */
} lh_run_params;

typedef struct lh_run_result {
  int32_t n_steps;     /* batches decoded */
  int32_t n_events;    /* ids written to `events` */
  int32_t n_active;    /* requests that could still take a step */
  int32_t decode_code; /* after LH_DECODE_ERROR: what llama_decode returned */
} lh_run_result;

/* Runs steps. Each step decodes one batch (one token of every decoding client, then
 * prompt chunks up to n_batch) and samples every client that got logits. Returns after
 * a step in which a request was held, finished or failed, or got its first token if it is
 * watched, with their ids in `events` (int64[capacity], capacity >= number of requests),
 * when a limit is reached, after lh_engine_wake, or when nothing is left to do.
 * LH_DECODE_ERROR: the batch was refused, the cells it left are removed, every client is
 * as it was before the step, but that a batch which failed halfway costs recurrent
 * states: their clients start over; also when it was aborted though nobody asked for
 * that. LH_ABORTED: see lh_engine_abort. */
LH_API int32_t lh_engine_run(lh_engine* engine, const lh_run_params* params,
                             int64_t* events, int32_t capacity, lh_run_result* result,
                             lh_error* error);

/* Ends a running lh_engine_run within one graph node (llama.cpp's abort callback) and
 * makes later ones return LH_ABORTED, until called with abort = 0. Takes no lock. */
LH_API void lh_engine_abort(lh_engine* engine, int32_t abort);

/* Ends a running lh_engine_run after the step that it is at, with LH_OK; if none is
 * running, the next one after its first step. From any thread; takes no lock. */
LH_API void lh_engine_wake(lh_engine* engine);

/* Moves a client's cells to host memory and frees its sequence id and cells; resume
 * brings them back (llama_state_seq_get_data, _set_data): nothing is computed twice. */
LH_API int32_t lh_client_pause(lh_engine* engine, int64_t id, lh_error* error);
LH_API int32_t lh_client_resume(lh_engine* engine, int64_t id, lh_error* error);

/* Ends a client: reason LH_FINISH_CANCELLED keeps its text so far; LH_FINISH_ERROR marks
 * it failed with `message`. */
LH_API int32_t lh_client_end(lh_engine* engine, int64_t id, int32_t reason,
                             const char* message, lh_error* error);

typedef struct lh_client_info {
  int32_t state;  /* lh_state */
  int32_t finish; /* lh_finish */
  int32_t n_prompt;
  int32_t n_reused; /* prompt tokens that came from fork_from */
  int32_t n_cells;  /* cells it takes up, or would when resumed; shared ones not */
  int32_t
      n_pending; /* tokens that still have to be decoded: the rest of a prompt, or 1 */
  int32_t n_generated; /* tokens generated, end-of-generation token not counted */
  uint32_t seed;
  const int32_t* tokens; /* int32[n_generated] */
  const char* text;      /* valid UTF-8, ends before a stop text */
  int32_t n_text;        /* bytes that will not change any more */
  const char* message;   /* what went wrong, "" if nothing did */
  int32_t complete;      /* 1: the answer came to its own end: LH_FINISH_EOG, or
                            LH_FINISH_STOP, under a grammar only if the text matches it */
  /* What it took; see lh_stats, to which the same was added. */
  int32_t n_prefill;
  int32_t n_decode;
  int32_t n_draft;
  int32_t n_pauses;
  double t_prefill_s; /* its share of the time of each batch that it was in, by tokens */
  double t_decode_s;
  double t_first_s; /* from lh_engine_submit to its first token; 0: it has none yet */
  /* Natural logarithms of the probabilities that the model itself gives: before bias,
   * grammar, penalties and temperature. */
  int32_t n_scores;           /* nodes of lh_request's score */
  const double* scores;       /* float64[n_scores]; NaN: not computed */
  int32_t n_logprobs;         /* tokens of the answer; -1: logprobs were not asked for */
  int32_t n_top;              /* kept for each */
  const double* logprobs;     /* float64[n_logprobs]; NaN: its row was not looked at */
  const int32_t* top_tokens;  /* int32[n_logprobs, n_top], most likely first; -1: none */
  const double* top_logprobs; /* float64[n_logprobs, n_top] */
} lh_client_info;

/* Pointers in `out` live until the next engine call other than lh_client_get and
 * lh_client_read. */
LH_API int32_t lh_client_get(lh_engine* engine, int64_t id, lh_client_info* out,
                             lh_error* error);

typedef struct lh_piece {
  const char* text;      /* valid UTF-8 that will not change any more; not ended by NUL */
  int32_t n_text;        /* bytes */
  const int32_t* tokens; /* int32[n_tokens] */
  int32_t n_tokens;
  int32_t n_bytes_now; /* of the whole answer so far: where to read on */
  int32_t n_tokens_now;
} lh_piece;

/* What is new of an answer since it had n_bytes bytes of text and n_tokens tokens: 0 and
 * 0, or n_bytes_now and n_tokens_now of an earlier piece. The text of choices comes at
 * their end. Pointers in `out` live as those of lh_client_get. */
LH_API int32_t lh_client_read(lh_engine* engine, int64_t id, int32_t n_bytes,
                              int32_t n_tokens, lh_piece* out, lh_error* error);

/* Forgets a request, ending it if it runs. Held prefixes are released with this, too. */
LH_API int32_t lh_client_release(lh_engine* engine, int64_t id, lh_error* error);

/* Ends and forgets every request and empties the KV cache. */
LH_API int32_t lh_engine_reset(lh_engine* engine, lh_error* error);

/* llama_memory_seq_pos_max of a sequence id: -1 when it holds no cells. */
LH_API int32_t lh_engine_seq_pos_max(lh_engine* engine, int32_t seq_id);

typedef struct lh_stats {
  int64_t n_prefill;   /* prompt tokens decoded */
  int64_t n_reused;    /* prompt tokens that came from a held prefix */
  int64_t n_decode;    /* generated tokens decoded */
  int64_t n_generated; /* tokens sampled and kept */
  int64_t n_draft;     /* those of them that had been drafted, see lh_request */
  int64_t n_batches;   /* llama_decode calls that succeeded */
  int64_t n_failed_decodes;
  int64_t n_lost; /* times a decode that failed halfway cost all recurrent states */
  int64_t n_pauses;
  int64_t n_cells_max; /* most KV cells that were in use in one of the batches, by all */
  int64_t n_clients;   /* sum over batches of clients in the batch */
  double t_prefill_s;  /* time in llama_decode, shared out by tokens */
  double t_decode_s;
  double t_sample_s; /* shared out by clients in the batch */
} lh_stats;

/* call < 0: counts of all since the engine was made. Else of the requests with that
 * number: what they took, and the batches that at least one of them was in; zeroes if
 * there is no such number. */
LH_API int32_t lh_engine_get_stats(lh_engine* engine, int64_t call, lh_stats* out,
                                   lh_error* error);

/* Drops the counts of a call, which are kept until then. Of requests of that call which
 * are still there no more is counted under its number. */
LH_API int32_t lh_engine_forget_call(lh_engine* engine, int64_t call, lh_error* error);

#ifdef __cplusplus
}
#endif

#endif /* LLAMAHERD_H */
