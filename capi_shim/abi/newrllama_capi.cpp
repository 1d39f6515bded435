// The newrllama_* C API: one call for a whole set of prompts.
#include "newrllama_capi.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "guard.hpp"
#include "herd.hpp"
#include "log.hpp"
#include "model.hpp"
#include "newrllama_context.hpp"
#include "prompt.hpp"

using lh::deref;

// These layouts must not change: clients compiled with an earlier header use them.
static_assert(sizeof(newrllama_parallel_params) == 28 &&
                  offsetof(newrllama_parallel_params, top_k) == 4 &&
                  offsetof(newrllama_parallel_params, top_p) == 8 &&
                  offsetof(newrllama_parallel_params, temperature) == 12 &&
                  offsetof(newrllama_parallel_params, repeat_last_n) == 16 &&
                  offsetof(newrllama_parallel_params, penalty_repeat) == 20 &&
                  offsetof(newrllama_parallel_params, seed) == 24,
              "the layout of newrllama_parallel_params never changes");
static_assert(sizeof(newrllama_chat_message) == 2 * sizeof(const char*) &&
                  offsetof(newrllama_chat_message, role) == 0,
              "the layout of newrllama_chat_message never changes");

struct newrllama_model {
  std::unique_ptr<lh_model> model;
};

namespace {

newrllama_error_code code_of(int32_t status) {
  switch (status) {
    case LH_OK:
      return NEWRLLAMA_SUCCESS;
    case LH_INVALID_ARGUMENT:
      return NEWRLLAMA_INVALID_ARGUMENT;
    case LH_MODEL_ERROR:
      return NEWRLLAMA_MODEL_ERROR;
    case LH_CONTEXT_ERROR:
      return NEWRLLAMA_CONTEXT_ERROR;
    case LH_ABORTED:
      return NEWRLLAMA_ABORTED;
    default:
      return NEWRLLAMA_ERROR;
  }
}

// Buffer for messages, valid until the thread's next call. All functions share this
// buffer, because each further buffer would be allocated in every thread.
lh_error& last_error() {
  thread_local lh_error error;
  return error;
}

// Like lh::guard, but with the error messages of this API.
template <class Body>
newrllama_error_code guarded(const char** error_message, Body&& body) noexcept {
  lh_error& error = last_error();
  const int32_t status = lh::guard(&error, std::forward<Body>(body));
  if (error_message != nullptr) {
    *error_message = status == LH_OK ? nullptr : error.message;
  }
  return code_of(status);
}

// Allocates memory that C callers free. Only the memory from this function leaves C++
// ownership.
template <class T>
std::unique_ptr<T, decltype(&std::free)> allocate(size_t n) {
  std::unique_ptr<T, decltype(&std::free)> memory(
      static_cast<T*>(std::calloc(n > 0 ? n : 1, sizeof(T))), &std::free);
  if (!memory) throw std::bad_alloc();
  return memory;
}

char* copy_string(const std::string& text) {
  auto copy = allocate<char>(text.size() + 1);
  std::memcpy(copy.get(), text.c_str(), text.size() + 1);
  return copy.release();
}

// Copies texts into an array. Frees all copies if the array cannot be completed.
char** copy_strings(const std::vector<std::string>& texts) {
  std::vector<std::unique_ptr<char, decltype(&std::free)>> copies;
  copies.reserve(texts.size());
  for (const std::string& text : texts)
    copies.emplace_back(copy_string(text), &std::free);
  auto array = allocate<char*>(texts.size());
  for (size_t i = 0; i < copies.size(); ++i) array.get()[i] = copies[i].release();
  return array.release();
}

const lh_model& model_of(newrllama_model_handle handle) {
  return *deref(handle, "model").model;
}

const lh_model* model_or_null(newrllama_model_handle handle) {
  return handle == nullptr ? nullptr : handle->model.get();
}

// Returns a property of a vocabulary; `fallback` without a model.
template <class T>
T of_vocab(newrllama_model_handle model, T fallback, T (*get)(const llama_vocab*)) {
  return lh::value_or(fallback, [&] { return get(model_of(model).vocab()); });
}

lh::Error aborted() { return {LH_ABORTED, "the call was ended by newrllama_abort"}; }

}  // namespace

// ---- models and contexts ---------------------------------------------------------

int32_t newrllama_abi_version(void) { return NEWRLLAMA_ABI_VERSION; }

newrllama_error_code newrllama_backend_init(const char** error_message) {
  return guarded(error_message, [] { lh::backend_init(false); });
}

void newrllama_backend_free(void) {
  lh::guard(nullptr, [] { lh::backend_free(); });
}

newrllama_error_code newrllama_model_load(const char* model_path, int n_gpu_layers,
                                          bool use_mmap, bool use_mlock,
                                          newrllama_model_handle* model_out,
                                          const char** error_message) {
  return guarded(error_message, [&] {
    deref(model_out, "model_out") = nullptr;
    lh_model_params params{};
    params.n_gpu_layers = n_gpu_layers;
    params.use_mmap = use_mmap ? 1 : 0;
    params.use_mlock = use_mlock ? 1 : 0;
    auto handle = std::make_unique<newrllama_model>();
    handle->model = lh_model::load(&deref(model_path, "model_path"), params);
    *model_out = handle.release();
  });
}

void newrllama_model_free(newrllama_model_handle model) { lh::free_unless_forked(model); }

newrllama_error_code newrllama_context_create(newrllama_model_handle model, int n_ctx,
                                              int n_threads, int n_seq_max,
                                              newrllama_context_handle* context_out,
                                              const char** error_message) {
  return guarded(error_message, [&] {
    deref(context_out, "context_out") = nullptr;
    auto ctx =
        std::make_unique<newrllama_context>(model_of(model), n_ctx, n_threads, n_seq_max);
    *context_out = ctx.release();
  });
}

void newrllama_context_free(newrllama_context_handle context) {
  lh::free_unless_forked(context);
}

// ---- text ------------------------------------------------------------------------

newrllama_error_code newrllama_tokenize(newrllama_model_handle model, const char* text,
                                        bool add_special, int32_t** tokens_out,
                                        size_t* n_tokens_out,
                                        const char** error_message) {
  return guarded(error_message, [&] {
    deref(tokens_out, "tokens_out") = nullptr;
    deref(n_tokens_out, "n_tokens_out") = 0;
    const auto tokens =
        model_of(model).tokenize(&deref(text, "text"), add_special, false);
    auto copy = allocate<int32_t>(tokens.size());
    std::copy(tokens.begin(), tokens.end(), copy.get());
    *tokens_out = copy.release();
    *n_tokens_out = tokens.size();
  });
}

newrllama_error_code newrllama_detokenize(newrllama_model_handle model,
                                          const int32_t* tokens, size_t n_tokens,
                                          char** text_out, const char** error_message) {
  return guarded(error_message, [&] {
    deref(text_out, "text_out") = nullptr;
    lh::require_range("n_tokens", static_cast<int64_t>(n_tokens), 0, INT32_MAX / 16);
    if (n_tokens > 0) deref(tokens, "tokens");
    *text_out = copy_string(
        model_of(model).detokenize(tokens, static_cast<int32_t>(n_tokens), false, false));
  });
}

newrllama_error_code newrllama_apply_chat_template(
    newrllama_model_handle model, const char* tmpl,
    const struct newrllama_chat_message* messages, size_t n_messages, bool add_assistant,
    char** text_out, const char** error_message) {
  return guarded(error_message, [&] {
    deref(text_out, "text_out") = nullptr;
    const lh_model& loaded = model_of(model);
    lh::require_range("n_messages", static_cast<int64_t>(n_messages), 1, INT32_MAX);
    deref(messages, "messages");
    if (tmpl == nullptr) tmpl = llama_model_chat_template(loaded.get(), nullptr);
    lh::require(tmpl != nullptr, "the model has no chat template: give one as tmpl");
    std::vector<std::string> contents;
    std::vector<llama_chat_message> chat;
    contents.reserve(n_messages);
    chat.reserve(n_messages);
    size_t size = 256;
    for (size_t i = 0; i < n_messages; ++i) {
      contents.push_back(
          lh::mark_literals(loaded, &deref(messages[i].content, "content")));
      size += contents.back().size() + std::strlen(&deref(messages[i].role, "role")) + 64;
    }
    for (size_t i = 0; i < n_messages; ++i) {
      chat.push_back({messages[i].role, contents[i].c_str()});
    }
    std::string text(size, '\0');
    for (;;) {
      const int32_t n =
          llama_chat_apply_template(tmpl, chat.data(), chat.size(), add_assistant,
                                    text.data(), static_cast<int32_t>(text.size()));
      lh::require(n >= 0, "llama_chat_apply_template does not know this chat template");
      const bool fits = static_cast<size_t>(n) <= text.size();
      text.resize(static_cast<size_t>(n));
      if (fits) break;
    }
    *text_out = copy_string(text);
  });
}

void newrllama_free_string(char* text) { std::free(text); }
void newrllama_free_tokens(int32_t* tokens) { std::free(tokens); }

void newrllama_free_string_array(char** texts, int n_texts) {
  if (texts == nullptr) return;
  for (int i = 0; i < n_texts; ++i) std::free(texts[i]);
  std::free(static_cast<void*>(texts));
}

// ---- generation ------------------------------------------------------------------

newrllama_error_code newrllama_generate(newrllama_context_handle ctx,
                                        const int32_t* tokens, size_t n_tokens,
                                        const struct newrllama_parallel_params* params,
                                        char** text_out, const char** error_message) {
  return guarded(error_message, [&] {
    deref(text_out, "text_out") = nullptr;
    lh::require_range("n_tokens", static_cast<int64_t>(n_tokens), 1, INT32_MAX);
    lh::HerdPrompt prompt;
    prompt.tokens.assign(&deref(tokens, "tokens"), tokens + n_tokens);
    std::vector<lh::HerdResult> results;
    if (!deref(ctx, "ctx").run({prompt}, deref(params, "params"), results)) {
      throw aborted();
    }
    if (results[0].failed) throw lh::Error(LH_DECODE_ERROR, results[0].text);
    *text_out = copy_string(results[0].text);
  });
}

newrllama_error_code newrllama_generate_parallel(
    newrllama_context_handle ctx, const char** prompts, int n_prompts,
    const struct newrllama_parallel_params* params, char*** results_out,
    const char** error_message) {
  return guarded(error_message, [&] {
    deref(results_out, "results_out") = nullptr;
    newrllama_context& context = deref(ctx, "ctx");
    lh::require_range("n_prompts", n_prompts, 1, INT32_MAX);
    deref(prompts, "prompts");
    std::vector<lh::HerdPrompt> herd_prompts(static_cast<size_t>(n_prompts));
    for (size_t i = 0; i < herd_prompts.size(); ++i) {
      try {
        herd_prompts[i].tokens =
            lh::tokenize_prompt(context.model(), &deref(prompts[i], "the prompt"), -1);
      } catch (const lh::Error& e) {
        herd_prompts[i].error = e.what();
      }
    }
    std::vector<lh::HerdResult> results;
    const bool complete =
        context.run(std::move(herd_prompts), deref(params, "params"), results);
    std::vector<std::string> texts;
    texts.reserve(results.size());
    for (const lh::HerdResult& result : results) {
      texts.push_back(result.failed ? "[ERROR] " + result.text : result.text);
    }
    *results_out = copy_strings(texts);
    if (!complete) throw aborted();
  });
}

void newrllama_abort(newrllama_context_handle ctx) {
  lh::guard(nullptr, [&] { deref(ctx, "ctx").abort(); });
}

newrllama_error_code newrllama_stats(newrllama_context_handle ctx, char** text_out,
                                     const char** error_message) {
  return guarded(error_message, [&] {
    deref(text_out, "text_out") = nullptr;
    *text_out = copy_string(deref(ctx, "ctx").stats_line());
  });
}

// ---- vocabulary ------------------------------------------------------------------

const char* newrllama_token_get_text(newrllama_model_handle model, int32_t token) {
  return lh_token_text(model_or_null(model), token);
}

float newrllama_token_get_score(newrllama_model_handle model, int32_t token) {
  return lh_token_score(model_or_null(model), token);
}

int newrllama_token_get_attr(newrllama_model_handle model, int32_t token) {
  return std::max(0, lh_token_attr(model_or_null(model), token));
}

bool newrllama_token_is_eog(newrllama_model_handle model, int32_t token) {
  return lh_token_is_eog(model_or_null(model), token) != 0;
}

bool newrllama_token_is_control(newrllama_model_handle model, int32_t token) {
  return lh_token_is_control(model_or_null(model), token) != 0;
}

int32_t newrllama_token_bos(newrllama_model_handle model) {
  return of_vocab(model, -1, llama_vocab_bos);
}
int32_t newrllama_token_eos(newrllama_model_handle model) {
  return of_vocab(model, -1, llama_vocab_eos);
}
int32_t newrllama_token_sep(newrllama_model_handle model) {
  return of_vocab(model, -1, llama_vocab_sep);
}
int32_t newrllama_token_nl(newrllama_model_handle model) {
  return of_vocab(model, -1, llama_vocab_nl);
}
int32_t newrllama_token_pad(newrllama_model_handle model) {
  return of_vocab(model, -1, llama_vocab_pad);
}
int32_t newrllama_token_eot(newrllama_model_handle model) {
  return of_vocab(model, -1, llama_vocab_eot);
}
int32_t newrllama_token_fim_pre(newrllama_model_handle model) {
  return of_vocab(model, -1, llama_vocab_fim_pre);
}
int32_t newrllama_token_fim_mid(newrllama_model_handle model) {
  return of_vocab(model, -1, llama_vocab_fim_mid);
}
int32_t newrllama_token_fim_suf(newrllama_model_handle model) {
  return of_vocab(model, -1, llama_vocab_fim_suf);
}
bool newrllama_add_bos_token(newrllama_model_handle model) {
  return of_vocab(model, false, llama_vocab_get_add_bos);
}
bool newrllama_add_eos_token(newrllama_model_handle model) {
  return of_vocab(model, false, llama_vocab_get_add_eos);
}
