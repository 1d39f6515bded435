#include "model.hpp"

#include <algorithm>
#include <cctype>
#include <thread>

#include "amx.hpp"
#include "devices.hpp"
#include "gguf_check.hpp"
#include "guard.hpp"
#include "llama_compat.hpp"
#include "log.hpp"
#include "openmp.hpp"
#include "utf8.hpp"

using lh::Error;

namespace lh {

void SpecialTexts::insert(const std::string& text, int32_t token) {
  if (text.empty()) return;
  texts_.emplace(text, token);
  starts_[static_cast<uint8_t>(text[0])] = true;
}

// The last special text that is not greater than `text` is the longest one at its start,
// or shares more bytes with it than any of those.
size_t SpecialTexts::match(std::string_view text) const {
  if (text.empty() || !starts_[static_cast<uint8_t>(text[0])]) return 0;
  while (!text.empty()) {
    auto last = texts_.upper_bound(text);
    if (last == texts_.begin()) return 0;
    const std::string& special = (--last)->first;
    const auto [at, end] =
        std::mismatch(special.begin(), special.end(), text.begin(), text.end());
    const auto n = static_cast<size_t>(at - special.begin());
    if (n == special.size()) return n;
    text = text.substr(0, n);
  }
  return 0;
}

}  // namespace lh

namespace {

// For a mapped file, the required memory includes the full size of the file: computations
// need its pages in memory, and repacked tensors are copies.
void check_size(const std::string& path, uint64_t needed, uint64_t available) {
  if (available == 0 || needed <= available) return;
  const auto text = [](uint64_t bytes) {
    constexpr uint64_t kMb = 1'000'000;
    return bytes < kMb ? std::to_string(bytes) + " bytes"
                       : std::to_string(bytes / kMb) + " MB";
  };
  throw Error(LH_MODEL_ERROR,
              "model file \"" + path + "\" does not fit into memory: its tensors take " +
                  text(needed) + ", and " + text(available) +
                  " are available; close other programs, or take a smaller model or a "
                  "stronger quantization (without check_memory it is loaded anyway)");
}

// Tests whether a USER_DEFINED token is markup ("<think>", "[gMASK]", "/nothink"). Other
// such tokens are plain text in the vocabulary: runs of spaces or line breaks, letters.
// Markup contains punctuation.
bool is_markup(std::string_view text) {
  return text.size() > 1 && std::any_of(text.begin(), text.end(), [](char c) {
           return c > ' ' && c < '\x7F' && std::isalnum(static_cast<uint8_t>(c)) == 0;
         });
}

// Returns the array of GPU shares that libllama reads; empty if the caller passed no
// shares.
std::vector<float> tensor_split(const lh_model_params& params) {
  lh::require_range("split_mode", params.split_mode, LLAMA_SPLIT_MODE_NONE,
                    LLAMA_SPLIT_MODE_ROW);
  if (params.tensor_split == nullptr) return {};
  const auto n_most = static_cast<int64_t>(llama_max_devices());
  lh::require_range("n_tensor_split", params.n_tensor_split, 1, n_most);
  std::vector<float> shares(static_cast<size_t>(n_most));
  std::copy_n(params.tensor_split, params.n_tensor_split, shares.begin());
  return shares;
}

// Makes libllama compute one batch after the other on several GPUs. It overlaps batches
// unless there are rules for the places of single tensors; no name matches this rule.
void forbid_overlap(llama_model_params& params) {
  static const llama_model_tensor_buft_override rules[] = {
      {"^$", ggml_backend_cpu_buffer_type()}, {nullptr, nullptr}};
  params.tensor_buft_overrides = rules;
}

// libllama calls it after each tensor, and stops loading if it returns false.
bool may_go_on(float /*progress*/, void* is_cancelled) {
  return *static_cast<const volatile int32_t*>(is_cancelled) == 0;
}

}  // namespace

std::unique_ptr<lh_model> lh_model::load(const char* path,
                                         const lh_model_params& params) {
  lh::check_adapters(params.adapters);
  const uint64_t n_bytes = lh::check_gguf(path).tensor_bytes;
  check_size(path, n_bytes + lh::check_loras(params.adapters, path), params.memory_bytes);
  if (params.vocab_only == 0) lh::check_amx();
  llama_model_params native = llama_model_default_params();
  native.n_gpu_layers = params.n_gpu_layers;
  native.split_mode = static_cast<llama_split_mode>(params.split_mode);
  native.main_gpu = params.main_gpu;
  std::vector<float> split = tensor_split(params);
  native.tensor_split = split.empty() ? nullptr : split.data();
  if (params.n_gpu_layers != 0 && !lh::may_overlap_here()) forbid_overlap(native);
  lh::compat::set_load_mode(native, params.use_mmap != 0, params.use_mlock != 0);
  native.vocab_only = params.vocab_only != 0;
  native.check_tensors = params.check_tensors != 0;
  if (params.is_cancelled != nullptr) {
    native.progress_callback = may_go_on;
    native.progress_callback_user_data = const_cast<int32_t*>(params.is_cancelled);
  }
  // Use as many threads as processors to convert weights to AMX's layout.
  lh::require_memory(lh::kRoom + lh::kThreadRoom * std::thread::hardware_concurrency());
  const lh::LogMark mark;
  lh::refuse_children();
  lh::own_threads();
  llama_model* loaded = llama_model_load_from_file(path, native);
  if (loaded != nullptr && !lh::amx_computes(llama_model_n_embd(loaded))) {
    llama_model_free(loaded);
    native.use_extra_bufts = false;
    loaded = llama_model_load_from_file(path, native);
  }
  if (loaded == nullptr && params.is_cancelled != nullptr && *params.is_cancelled != 0) {
    throw Error(LH_MODEL_ERROR,
                "loading model file \"" + std::string(path) + "\" was cancelled");
  }
  if (loaded == nullptr) {
    throw Error(LH_MODEL_ERROR, "cannot load model file \"" + std::string(path) +
                                    "\": " + mark.first_problem());
  }
  llama_model_ptr owned(loaded);
  std::unique_ptr<lh_model> model(new lh_model(loaded));
  model->owned_ = std::move(owned);
  model->tensor_split_ = std::move(split);
  model->adapters_.load(params.adapters, loaded);
  model->path_ = path;
  return model;
}

std::unique_ptr<lh_model> lh_model::adapt(const lh_adapters* adapters) const {
  lh::check_adapters(adapters);
  lh::check_loras(adapters, path_);
  lh::refuse_children();
  std::unique_ptr<lh_model> adapted(new lh_model(model_));
  adapted->path_ = path_;
  adapted->base_ = held();
  adapted->adapters_.load(adapters, model_);
  adapted->adapters_.leave_to_model();
  return adapted;
}

lh_model* lh_model::hand_out(std::unique_ptr<lh_model> model) {
  const std::shared_ptr<lh_model> shared = std::move(model);
  shared->handed_out_ = shared;
  return shared.get();
}

lh_model::lh_model(llama_model* model)
    : model_(model),
      vocab_(llama_model_get_vocab(model)),
      n_vocab_(llama_vocab_n_tokens(vocab_)),
      tokenizer_(model) {
  if (llama_vocab_type(vocab_) == LLAMA_VOCAB_TYPE_NONE) return;
  constexpr unsigned kSpecial = static_cast<unsigned>(LLAMA_TOKEN_ATTR_CONTROL) |
                                static_cast<unsigned>(LLAMA_TOKEN_ATTR_UNKNOWN);
  constexpr auto kDefined = static_cast<unsigned>(LLAMA_TOKEN_ATTR_USER_DEFINED);
  for (int32_t token = 0; token < n_vocab_; ++token) {
    if (is_eog(token)) eog_tokens_.push_back(token);
    const auto attr = static_cast<unsigned>(llama_vocab_get_attr(vocab_, token));
    if ((attr & (kSpecial | kDefined)) == 0) continue;
    const char* token_text = llama_vocab_get_text(vocab_, token);
    const std::string text = token_text == nullptr ? "" : token_text;
    const bool is_defined = (attr & kDefined) != 0 && is_markup(text);
    if (is_defined) defined_texts_.insert(text, token);
    if (is_defined || (attr & kSpecial) != 0) special_texts_.insert(text, token);
  }
  const std::vector<int32_t> first = tokenize("a", false, false);
  adds_space_ = !first.empty() && piece(first[0])[0] == ' ';
  int32_t n = 0;
  const llama_token* suppressed = lh::compat::suppressed_tokens(vocab_, &n);
  if (suppressed != nullptr) suppressed_tokens_.assign(suppressed, suppressed + n);
}

std::vector<std::string_view> lh_model::cut_defined(std::string_view text) const {
  std::vector<std::string_view> parts;
  size_t start = 0;
  for (size_t i = 0; i < text.size() && !defined_texts_.empty(); ++i) {
    if (defined_texts_.match(text.substr(i)) == 0) continue;
    size_t end = i + 1;  // after its first character
    while (end < text.size() && lh::continues_character(text[end])) ++end;
    parts.push_back(text.substr(start, end - start));
    start = end;
  }
  parts.push_back(text.substr(start));
  return parts;
}

std::vector<int32_t> lh_model::tokenize(std::string_view text, bool add_special,
                                        bool parse_special) const {
  if (parse_special) return tokenizer_.tokens(text, add_special, true);
  const std::vector<std::string_view> parts = cut_defined(text);
  std::vector<int32_t> tokens = tokenizer_.tokens(parts[0], add_special, false);
  if (parts.size() == 1) return tokens;
  // The other parts follow the first, before a closing token that the model adds.
  const std::vector<int32_t> first = tokenizer_.tokens(parts[0], false, false);
  auto at = std::search(tokens.begin(), tokens.end(), first.begin(), first.end()) +
            static_cast<std::ptrdiff_t>(first.size());
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::vector<int32_t> more = tokenize_inside(parts[i]);
    at = tokens.insert(at, more.begin(), more.end()) +
         static_cast<std::ptrdiff_t>(more.size());
  }
  return tokens;
}

std::vector<int32_t> lh_model::tokenize_inside(std::string_view text) const {
  if (!adds_space_) return tokenize(text, false, false);
  const std::string before = "\x02";  // no token contains this and more text
  const std::vector<int32_t> head = tokenize(before, false, false);
  std::vector<int32_t> all = tokenize(before + std::string(text), false, false);
  const bool is_apart =
      all.size() >= head.size() && std::equal(head.begin(), head.end(), all.begin());
  if (!is_apart) return tokenize(text, false, false);
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(head.size()));
  return all;
}

std::string lh_model::detokenize(const int32_t* tokens, int32_t n_tokens,
                                 bool remove_special, bool unparse_special) const {
  for (int32_t i = 0; i < n_tokens; ++i) {
    if (!contains(tokens[i])) {
      throw Error(LH_INVALID_ARGUMENT,
                  "tokens[" + std::to_string(i) + "] is " + std::to_string(tokens[i]) +
                      ", but the vocabulary has " + std::to_string(n_vocab_) + " tokens");
    }
  }
  std::string text(static_cast<size_t>(n_tokens) * 8 + 16, '\0');
  for (;;) {
    const int32_t n = llama_detokenize(vocab_, tokens, n_tokens, text.data(),
                                       static_cast<int32_t>(text.size()), remove_special,
                                       unparse_special);
    text.resize(static_cast<size_t>(n < 0 ? -n : n));
    if (n >= 0) return text;
  }
}

std::string lh_model::piece(int32_t token) const {
  std::string text(64, '\0');
  for (;;) {
    const int32_t n = llama_token_to_piece(vocab_, token, text.data(),
                                           static_cast<int32_t>(text.size()), 0, false);
    text.resize(static_cast<size_t>(n < 0 ? -n : n));
    if (n >= 0) return text;
  }
}

const lh::TokenPieces& lh_model::pieces() const {
  const std::scoped_lock lock(pieces_mutex_);
  if (pieces_) return *pieces_;
  std::vector<std::string> all(static_cast<size_t>(n_vocab_));
  for (int32_t token = 0; token < n_vocab_; ++token) {
    if (!is_eog(token)) all[static_cast<size_t>(token)] = piece(token);
  }
  pieces_ = std::make_unique<lh::TokenPieces>(all);
  return *pieces_;
}

const void* lh_model::kept(
    Kept kind, const std::function<std::shared_ptr<const void>()>& make) const {
  const std::scoped_lock lock(kept_mutex_);
  std::shared_ptr<const void>& object = kept_[static_cast<size_t>(kind)];
  if (!object) object = make();
  return object.get();
}

namespace {

// Calls a llama_model_meta_* function with a sufficiently large buffer.
template <class Get>
std::string meta_string(Get&& get) {
  std::string text(256, '\0');
  for (;;) {
    const int32_t n = get(text.data(), text.size());
    if (n < 0) return "";
    const bool fits = static_cast<size_t>(n) < text.size();
    text.resize(static_cast<size_t>(n) + (fits ? 0 : 1));
    if (fits) return text;
  }
}

}  // namespace

std::string lh_model::meta_key(int32_t i) const {
  return meta_string([&](char* buffer, size_t size) {
    return llama_model_meta_key_by_index(model_, i, buffer, size);
  });
}

std::string lh_model::meta_value(int32_t i) const {
  return meta_string([&](char* buffer, size_t size) {
    return llama_model_meta_val_str_by_index(model_, i, buffer, size);
  });
}
