// Loaded model, with the vocabulary functions that the engine needs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "adapters.hpp"
#include "llama-cpp.h"
#include "llamaherd.h"
#include "token_pieces.hpp"
#include "tokenizer.hpp"

namespace lh {

// Texts of special tokens, e.g. "<|im_end|>".
class SpecialTexts {
 public:
  void insert(const std::string& text, int32_t token);
  // Returns the size of the longest special text at the start of `text`; 0 if there is
  // none.
  size_t match(std::string_view text) const;
  // Returns the token of a text that matched.
  int32_t token(std::string_view text) const { return texts_.find(text)->second; }
  bool empty() const { return texts_.empty(); }

 private:
  std::map<std::string, int32_t, std::less<>> texts_;
  std::array<bool, 256>
      starts_{};  // indexed by first byte; rejects nearly every byte of a text
};

}  // namespace lh

struct lh_model : std::enable_shared_from_this<lh_model> {
 public:
  static std::unique_ptr<lh_model> load(const char* path, const lh_model_params& params);
  // Returns a model with the same weights and other adapters. The returned model keeps
  // this model alive.
  std::unique_ptr<lh_model> adapt(const lh_adapters* adapters) const;
  // Transfers ownership of a model to a C caller until `let_go` is called. Objects
  // created from the model may keep it longer, see `held`.
  static lh_model* hand_out(std::unique_ptr<lh_model> model);
  void let_go() { const std::shared_ptr<lh_model> last = std::move(handed_out_); }
  // Returns shared ownership for objects that compute with the model, because garbage
  // collectors free a model and its objects in any order. Returns null if no C caller
  // owns the model; its owner must then keep the model alive.
  std::shared_ptr<const lh_model> held() const { return weak_from_this().lock(); }

  llama_model* get() const { return model_; }
  const llama_vocab* vocab() const { return vocab_; }
  const lh::Adapters& adapters() const { return adapters_; }
  int32_t n_vocab() const { return n_vocab_; }
  bool contains(int32_t token) const { return token >= 0 && token < n_vocab_; }

  // Special texts that are parsed only on request.
  const lh::SpecialTexts& special_texts() const { return special_texts_; }
  // Tokens that end a generation, and tokens that the model file marks as never
  // generated.
  const std::vector<int32_t>& eog_tokens() const { return eog_tokens_; }
  const std::vector<int32_t>& suppressed_tokens() const { return suppressed_tokens_; }
  bool is_eog(int32_t token) const { return llama_vocab_is_eog(vocab_, token); }

  // Without `parse_special` no special text becomes a token, including those that
  // llama_tokenize always parses (USER_DEFINED).
  std::vector<int32_t> tokenize(std::string_view text, bool add_special,
                                bool parse_special) const;
  // Tokenizes text inside a longer text, without the space that some tokenizers insert
  // before a text.
  std::vector<int32_t> tokenize_inside(std::string_view text) const;
  std::string detokenize(const int32_t* tokens, int32_t n_tokens, bool remove_special,
                         bool unparse_special) const;
  // Returns the bytes that a token adds to generated text; control tokens add none.
  std::string piece(int32_t token) const;
  // Returns the pieces of all tokens except those that end a generation; built at first
  // use.
  const lh::TokenPieces& pieces() const;
  // Returns an object that another folder stores with the model: one object of each kind,
  // created at first use. `make` may request an object of another kind.
  enum class Kept : uint8_t { kVocabulary, kConstraints };
  const void* kept(Kept kind,
                   const std::function<std::shared_ptr<const void>()>& make) const;
  // Returns metadata entry i as text.
  std::string meta_key(int32_t i) const;
  std::string meta_value(int32_t i) const;

 private:
  explicit lh_model(llama_model* model);
  // Splits text so that no part contains a text of `defined_texts_`.
  std::vector<std::string_view> cut_defined(std::string_view text) const;

  std::shared_ptr<lh_model> handed_out_;  // the model itself, as long as the C caller
                                          // owns it
  std::vector<float> tensor_split_;       // libllama keeps a pointer to it
  std::string path_;
  std::shared_ptr<const lh_model> base_;  // owns the weights; null if no other model does
  llama_model_ptr owned_;                 // null if base_ owns the weights
  // Declared after owned_, so that the adapters are freed before the model: members are
  // destroyed in reverse order of declaration.
  lh::Adapters adapters_;
  llama_model* model_;
  const llama_vocab* vocab_;
  int32_t n_vocab_;
  lh::Tokenizer tokenizer_;
  bool adds_space_ = false;  // insert a space before a text
  lh::SpecialTexts special_texts_;
  lh::SpecialTexts defined_texts_;  // special texts that llama_tokenize always parses
  std::vector<int32_t> eog_tokens_;
  std::vector<int32_t> suppressed_tokens_;
  // No once_flag: under ThreadSanitizer an exception inside it blocks the next caller.
  mutable std::mutex pieces_mutex_;
  mutable std::unique_ptr<const lh::TokenPieces> pieces_;
  mutable std::recursive_mutex kept_mutex_;
  // Objects by `Kept`. `kept_` must be the last member, and the order of the kinds must
  // not change. An object may use all members above and objects of earlier kinds, so it
  // must be destroyed before them. (Members and elements are destroyed in reverse order.)
  mutable std::array<std::shared_ptr<const void>, 2> kept_;
};
