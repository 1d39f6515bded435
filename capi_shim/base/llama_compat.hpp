// Calls to llama.h and gguf.h whose declarations differ between llama-cpp-python 0.3.30
// and the pinned version. Each function uses the newer declaration if the headers have
// it, and a fallback otherwise. See docs/moving-llama.md.
#pragma once

#include <cstdint>
#include <string>

#include "gguf.h"
#include "guard.hpp"
#include "llama.h"

namespace lh::compat {

// Some versions lack these functions of llama.h. Argument-dependent lookup finds them
// when the template is instantiated. For the argument 0, overload resolution prefers
// `int` to `long`.
namespace detail {

template <class Params>
auto set_load_mode(Params& params, bool mmap, bool mlock, int)
    -> decltype(static_cast<void>(params.load_mode)) {
  // Enum llama_load_mode, whose names are missing from older headers: 1 is mmap, 2 mlock.
  params.load_mode =
      static_cast<decltype(params.load_mode)>((mmap ? 1 : 0) + (mlock ? 2 : 0));
}

template <class Params>
void set_load_mode(Params& params, bool mmap, bool mlock, long) {
  params.use_mmap = mmap;
  params.use_mlock = mlock;
}

template <class Vocab>
auto suppressed_tokens(const Vocab* vocab, int32_t* n, int)
    -> decltype(llama_vocab_get_suppress_tokens(vocab, n)) {
  return llama_vocab_get_suppress_tokens(vocab, n);
}

template <class Vocab>
const llama_token* suppressed_tokens(const Vocab* /*vocab*/, int32_t* n, long) {
  *n = 0;
  return nullptr;
}

template <class Context>
auto is_causal(const Context* ctx, int) -> decltype(llama_get_causal_attn(ctx)) {
  return llama_get_causal_attn(ctx);
}

// Reads the setting from the model file, as libllama does when it creates a context;
// llamaherd never changes it later.
template <class Context>
bool is_causal(const Context* ctx, long) {
  const llama_model* model = llama_get_model(ctx);
  char text[128] = "";
  if (llama_model_meta_val_str(model, "general.architecture", text, sizeof text) < 0) {
    return true;
  }
  const std::string key = std::string(text) + ".attention.causal";
  if (llama_model_meta_val_str(model, key.c_str(), text, sizeof text) < 0) return true;
  return std::string(text) != "false";
}

template <class Header>
auto tensor_shape(const Header* header, int64_t i, int)
    -> decltype(gguf_get_tensor_ne(header, i)) {
  return gguf_get_tensor_ne(header, i);
}

template <class Header>
const int64_t* tensor_shape(const Header* /*header*/, int64_t /*i*/, long) {
  throw Error(LH_MODEL_ERROR,
              "LoRA adapters cannot be checked: this llama-cpp-python has no "
              "gguf_get_tensor_ne; 0.3.35 and later have it");
}

}  // namespace detail

// Sets load_mode, or use_mmap and use_mlock before 0.3.35.
inline void set_load_mode(llama_model_params& params, bool mmap, bool mlock) {
  detail::set_load_mode(params, mmap, mlock, 0);
}

// Returns the tokens that the model never generates (from 0.3.35). Older versions of
// libllama have no such list; for these, returns no tokens.
inline const llama_token* suppressed_tokens(const llama_vocab* vocab, int32_t* n) {
  return detail::suppressed_tokens(vocab, n, 0);
}

// Calls llama_get_causal_attn (from 0.3.36). For older versions, reads the model's
// metadata.
inline bool is_causal(const llama_context* ctx) { return detail::is_causal(ctx, 0); }

// Calls gguf_get_tensor_ne (from 0.3.35), int64[GGML_MAX_DIMS]. For older versions,
// throws Error (LH_MODEL_ERROR).
inline const int64_t* tensor_shape(const gguf_context* header, int64_t i) {
  return detail::tensor_shape(header, i, 0);
}

}  // namespace lh::compat
