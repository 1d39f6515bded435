// extern "C" functions of llamaherd.h for the library, models, texts and prefixes.
#include <algorithm>
#include <cstring>

#include "amx.hpp"
#include "devices.hpp"
#include "ggml.h"
#include "gguf_check.hpp"
#include "guard.hpp"
#include "log.hpp"
#include "model.hpp"
#include "openmp.hpp"
#include "prefix_tree.hpp"
#include "prompt.hpp"
#include "seed.hpp"
#include "struct_size.hpp"

using lh::deref;
using lh::guard;
using lh::value_or;

namespace {

// Copies data into a caller's array. Always stores the needed size; copies the data only
// if the array is large enough.
template <class T, class Container>
void copy_out(const Container& from, T* to, int32_t capacity, int32_t* size) {
  const auto needed = static_cast<int32_t>(from.size());
  deref(size, "size") = needed;
  if (needed > capacity) {
    throw lh::Error(LH_NO_SPACE, "room for " + std::to_string(needed) +
                                     " elements is needed, there is room for " +
                                     std::to_string(capacity));
  }
  if (needed > 0) std::copy(from.begin(), from.end(), &deref(to, "output"));
}

std::string_view view(const char* text, int32_t n_text) {
  lh::require_range("n_text", n_text, 0, INT32_MAX);
  if (n_text > 0) deref(text, "text");
  return {text == nullptr ? "" : text, static_cast<size_t>(n_text)};
}

// Returns a property of a token; `outside` for a token outside the vocabulary.
template <class T, class Property>
T of_token(const lh_model* model, int32_t token, T outside,
           Property (*get)(const llama_vocab*, llama_token)) {
  return value_or(outside, [&] {
    const bool is_inside = deref(model, "model").contains(token);
    return is_inside ? static_cast<T>(get(model->vocab(), token)) : outside;
  });
}

}  // namespace

void lh_backend_init(int32_t chain) {
  guard(nullptr, [&] { lh::backend_init(chain != 0); });
}

void lh_backend_free(void) {
  guard(nullptr, [] { lh::backend_free(); });
}

int32_t lh_log_drain(char* buffer, int32_t size) {
  return value_or<int32_t>(0, [&] {
    if (size <= 0) return 0;
    const std::string lines = lh::log_drain(static_cast<size_t>(size));
    std::memcpy(&deref(buffer, "buffer"), lines.c_str(), lines.size() + 1);
    return static_cast<int32_t>(lines.size());
  });
}

int32_t lh_abi_version(void) { return LH_ABI_VERSION; }

void lh_abi_probe(int32_t* out) {
  guard(nullptr, [&] {
    deref(out, "out");
    out[0] = sizeof(llama_model_params);
    out[1] = sizeof(llama_context_params);
    out[2] = sizeof(llama_batch);
    out[3] = static_cast<int32_t>(llama_context_default_params().n_batch);
  });
}

const char* lh_ggml_commit(void) { return ggml_commit(); }

int32_t lh_process_check(lh_error* error) {
  return guard(error, [] {});
}

int32_t lh_own_threads(void) {
  return value_or<int32_t>(0, [] { return lh::own_threads() ? 1 : 0; });
}

int32_t lh_supports_gpu_offload(void) { return llama_supports_gpu_offload() ? 1 : 0; }

int32_t lh_gpus(lh_gpu* out, int32_t capacity, int32_t* count, lh_error* error) {
  return guard(error, [&] { copy_out(lh::gpus(), out, capacity, count); });
}

int32_t lh_has_amx(void) { return lh::has_amx() ? 1 : 0; }

uint32_t lh_derive_seed(uint32_t seed, uint64_t index) {
  return lh::derive_seed(seed, index);
}

// ---- model --------------------------------------------------------------------------

void lh_model_default_params(lh_model_params* params) {
  lh::set_defaults(params, [](lh_model_params& p) {
    p.use_mmap = 1;
    p.split_mode = LLAMA_SPLIT_MODE_LAYER;
  });
}

int32_t lh_gguf_check(const char* path, lh_gguf_info* out, lh_error* error) {
  return guard(error, [&] { deref(out, "out") = lh::check_gguf(&deref(path, "path")); });
}

int32_t lh_model_load(const char* path, const lh_model_params* params, lh_model** out,
                      lh_error* error) {
  return guard(error, [&] {
    deref(out, "out") = nullptr;
    const lh_model_params& p = lh::deref_sized(params, "params");
    lh::check_adapter_sizes(p.adapters);
    *out = lh_model::hand_out(lh_model::load(&deref(path, "path"), p));
  });
}

int32_t lh_model_adapt(const lh_model* base, const lh_adapters* adapters, lh_model** out,
                       lh_error* error) {
  return guard(error, [&] {
    deref(out, "out") = nullptr;
    lh::check_adapter_sizes(adapters);
    *out = lh_model::hand_out(deref(base, "base").adapt(adapters));
  });
}

void lh_model_free(lh_model* model) {
  if (model == nullptr || lh::is_refused_child()) return;
  model->let_go();
  lh::return_free_memory();
}

int32_t lh_model_get_info(const lh_model* model, lh_model_info* out, lh_error* error) {
  return guard(error, [&] {
    const llama_model* native = deref(model, "model").get();
    const llama_vocab* vocab = model->vocab();
    lh_model_info info{};
    info.n_vocab = model->n_vocab();
    info.n_ctx_train = llama_model_n_ctx_train(native);
    info.n_embd = llama_model_n_embd(native);
    info.n_embd_out = llama_model_n_embd_out(native);
    info.n_layer = llama_model_n_layer(native);
    info.n_swa = llama_model_n_swa(native);
    info.is_recurrent = llama_model_is_recurrent(native) ? 1 : 0;
    info.is_hybrid = llama_model_is_hybrid(native) ? 1 : 0;
    info.has_encoder = llama_model_has_encoder(native) ? 1 : 0;
    info.has_decoder = llama_model_has_decoder(native) ? 1 : 0;
    info.add_bos = llama_vocab_get_add_bos(vocab) ? 1 : 0;
    info.add_eos = llama_vocab_get_add_eos(vocab) ? 1 : 0;
    info.bos = llama_vocab_bos(vocab);
    info.eos = llama_vocab_eos(vocab);
    info.eot = llama_vocab_eot(vocab);
    info.sep = llama_vocab_sep(vocab);
    info.nl = llama_vocab_nl(vocab);
    info.pad = llama_vocab_pad(vocab);
    info.fim_pre = llama_vocab_fim_pre(vocab);
    info.fim_mid = llama_vocab_fim_mid(vocab);
    info.fim_suf = llama_vocab_fim_suf(vocab);
    info.size_bytes = llama_model_size(native);
    info.n_params = llama_model_n_params(native);
    deref(out, "out") = info;
  });
}

int32_t lh_model_n_meta(const lh_model* model) {
  return value_or<int32_t>(
      0, [&] { return llama_model_meta_count(deref(model, "model").get()); });
}

int32_t lh_model_meta(const lh_model* model, int32_t i, char* key, char* value,
                      int32_t size, int32_t* key_size, int32_t* value_size,
                      lh_error* error) {
  return guard(error, [&] {
    const int32_t n = llama_model_meta_count(deref(model, "model").get());
    lh::require_range("i", i, 0, n - 1);
    // The terminating NUL is copied, and included in the size, as part of the text.
    std::string key_text = model->meta_key(i);
    std::string value_text = model->meta_value(i);
    key_text.push_back('\0');
    value_text.push_back('\0');
    deref(value_size, "value_size") = static_cast<int32_t>(value_text.size());
    copy_out(key_text, key, size, key_size);
    copy_out(value_text, value, size, value_size);
  });
}

const char* lh_model_chat_template(const lh_model* model) {
  return value_or<const char*>(nullptr, [&] {
    return llama_model_chat_template(deref(model, "model").get(), nullptr);
  });
}

const char* lh_token_text(const lh_model* model, int32_t token) {
  return of_token<const char*>(model, token, nullptr, llama_vocab_get_text);
}

float lh_token_score(const lh_model* model, int32_t token) {
  return of_token(model, token, 0.0F, llama_vocab_get_score);
}

int32_t lh_token_attr(const lh_model* model, int32_t token) {
  return of_token(model, token, -1, llama_vocab_get_attr);
}

int32_t lh_token_is_eog(const lh_model* model, int32_t token) {
  return of_token(model, token, 0, llama_vocab_is_eog);
}

int32_t lh_token_is_control(const lh_model* model, int32_t token) {
  return of_token(model, token, 0, llama_vocab_is_control);
}

// ---- text and tokens ----------------------------------------------------------------

int32_t lh_tokenize(const lh_model* model, const char* text, int32_t n_text,
                    int32_t add_special, int32_t parse_special, int32_t* tokens,
                    int32_t capacity, int32_t* n_tokens, lh_error* error) {
  return guard(error, [&] {
    copy_out(deref(model, "model")
                 .tokenize(view(text, n_text), add_special != 0, parse_special != 0),
             tokens, capacity, n_tokens);
  });
}

int32_t lh_tokenize_inside(const lh_model* model, const char* text, int32_t n_text,
                           int32_t* tokens, int32_t capacity, int32_t* n_tokens,
                           lh_error* error) {
  return guard(error, [&] {
    copy_out(deref(model, "model").tokenize_inside(view(text, n_text)), tokens, capacity,
             n_tokens);
  });
}

int32_t lh_tokenize_prompt(const lh_model* model, const char* text, int32_t n_text,
                           int32_t parse_special, int32_t* tokens, int32_t capacity,
                           int32_t* n_tokens, lh_error* error) {
  return guard(error, [&] {
    copy_out(
        lh::tokenize_prompt(deref(model, "model"), view(text, n_text), parse_special),
        tokens, capacity, n_tokens);
  });
}

int32_t lh_mark_literals(const lh_model* model, const char* text, int32_t n_text,
                         char* out, int32_t capacity, int32_t* n_out, lh_error* error) {
  return guard(error, [&] {
    copy_out(lh::mark_literals(deref(model, "model"), view(text, n_text)), out, capacity,
             n_out);
  });
}

int32_t lh_detokenize(const lh_model* model, const int32_t* tokens, int32_t n_tokens,
                      int32_t remove_special, int32_t unparse_special, char* text,
                      int32_t capacity, int32_t* n_text, lh_error* error) {
  return guard(error, [&] {
    lh::require_range("n_tokens", n_tokens, 0, INT32_MAX / 16);
    if (n_tokens > 0) deref(tokens, "tokens");
    copy_out(deref(model, "model")
                 .detokenize(tokens, n_tokens, remove_special != 0, unparse_special != 0),
             text, capacity, n_text);
  });
}

// ---- prefixes -----------------------------------------------------------------------

int32_t lh_min_prefix_tokens(int64_t n_cells) { return lh::min_prefix_tokens(n_cells); }

int32_t lh_prefix_tree(const int32_t* tokens, const int64_t* offsets, int32_t n_prompts,
                       int32_t min_tokens, int32_t* order, int32_t* node_of,
                       int32_t* node_parent, int32_t* node_length, int32_t* node_prompt,
                       int32_t* n_nodes, lh_error* error) {
  return guard(error, [&] {
    lh::require_range("n_prompts", n_prompts, 0, INT32_MAX);
    deref(offsets, "offsets");
    if (offsets[n_prompts] > 0) deref(tokens, "tokens");
    const lh::PrefixTree tree =
        lh::build_prefix_tree(tokens, offsets, n_prompts, min_tokens);
    int32_t size = 0;
    copy_out(tree.order, order, n_prompts, &size);
    copy_out(tree.node_of, node_of, n_prompts, &size);
    copy_out(tree.node_parent, node_parent, n_prompts, n_nodes);
    copy_out(tree.node_length, node_length, n_prompts, &size);
    copy_out(tree.node_prompt, node_prompt, n_prompts, &size);
  });
}
