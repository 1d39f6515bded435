#include "prompt.hpp"

#include <algorithm>
#include <utility>

#include "guard.hpp"
#include "utf8.hpp"

namespace lh {
namespace {

// Unicode reserves these two characters for internal use by programs; no document needs
// them.
constexpr std::string_view kOpen = "\xEF\xB7\x90";   // U+FDD0
constexpr std::string_view kClose = "\xEF\xB7\x91";  // U+FDD1
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Tokenizes a text of special tokens and runs of characters between them. Each run is
// tokenized as a whole, as in llama_tokenize, even if only parts of the run are literal.
class Runs {
 public:
  explicit Runs(const lh_model& model) : model_(model) {}

  void add_literal(std::string_view text) { run_.append(text); }

  void add_parsed(std::string_view text) {
    const SpecialTexts& specials = model_.special_texts();
    while (!text.empty()) {
      const size_t n = specials.match(text);
      if (n > 0) {
        add_special(specials.token(text.substr(0, n)));
      } else {
        run_.push_back(text[0]);
      }
      text.remove_prefix(n > 0 ? n : 1);
    }
  }

  // Returns all tokens, without those that the model adds at the ends.
  std::vector<int32_t> finish() {
    end_run();
    return std::move(tokens_);
  }

 private:
  bool has(int32_t token, llama_token_attr attr) const {
    const auto attrs = static_cast<unsigned>(llama_vocab_get_attr(model_.vocab(), token));
    return (attrs & static_cast<unsigned>(attr)) != 0;
  }

  void add_special(int32_t token) {
    // npos + 1 is 0: the whole run consists of spaces.
    if (has(token, LLAMA_TOKEN_ATTR_LSTRIP))
      run_.resize(run_.find_last_not_of(kSpaces) + 1);
    end_run();
    tokens_.push_back(token);
    strips_ = has(token, LLAMA_TOKEN_ATTR_RSTRIP);
  }

  void end_run() {
    std::string_view text = run_;
    if (strips_)
      text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
    if (!text.empty()) {
      const auto more = model_.tokenize(text, false, false);
      tokens_.insert(tokens_.end(), more.begin(), more.end());
    }
    run_.clear();
  }

  const lh_model& model_;
  std::string run_;
  bool strips_ = false;  // remove the spaces at the start of the run
  std::vector<int32_t> tokens_;
};

std::vector<int32_t> tokenize_marked(const lh_model& model, std::string_view text) {
  Runs runs(model);
  bool literal = false;
  while (!text.empty()) {
    const size_t end = text.find(literal ? kClose : kOpen);
    const std::string_view part = text.substr(0, end);
    literal ? runs.add_literal(part) : runs.add_parsed(part);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + kOpen.size());
    literal = !literal;
  }
  std::vector<int32_t> tokens = runs.finish();
  if (llama_vocab_get_add_bos(model.vocab())) {
    tokens.insert(tokens.begin(), llama_vocab_bos(model.vocab()));
  }
  if (llama_vocab_get_add_eos(model.vocab())) {
    tokens.push_back(llama_vocab_eos(model.vocab()));
  }
  return tokens;
}

// libllama needs quadratic time for the special tokens of a text: 20 s for 40,000.
bool has_many_specials(const lh_model& model, std::string_view text) {
  constexpr size_t kMany = 4096;
  const SpecialTexts& specials = model.special_texts();
  size_t n_found = 0;
  while (!text.empty() && n_found < kMany) {
    const size_t n = specials.match(text);
    if (n > 0) ++n_found;
    text.remove_prefix(n > 0 ? n : 1);
  }
  return n_found >= kMany;
}

// Returns the text. If the model adds BOS itself, a BOS text at the start is removed.
std::string_view without_bos(const lh_model& model, std::string_view text) {
  const llama_token bos = llama_vocab_bos(model.vocab());
  if (!llama_vocab_get_add_bos(model.vocab()) || bos < 0) return text;
  const std::string_view bos_text = llama_vocab_get_text(model.vocab(), bos);
  if (!bos_text.empty() && text.substr(0, bos_text.size()) == bos_text) {
    text.remove_prefix(bos_text.size());
  }
  return text;
}

}  // namespace

std::vector<int32_t> tokenize_prompt(const lh_model& model, std::string_view text,
                                     int32_t parse_special) {
  require_range("parse_special", parse_special, -1, 1);
  const bool marked = text.find(kOpen) != std::string_view::npos;
  if (parse_special < 0) {
    parse_special = marked || model.special_texts().match(text) > 0 ? 1 : 0;
  }
  if (parse_special == 0) return model.tokenize(text, true, false);
  text = without_bos(model, text);
  if (marked || has_many_specials(model, text)) return tokenize_marked(model, text);
  return model.tokenize(text, true, true);
}

std::string mark_literals(const lh_model& model, std::string_view text) {
  const SpecialTexts& specials = model.special_texts();
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    size_t n = specials.match(text);
    if (n > 0) {
      out.append(kOpen).append(text.substr(0, n)).append(kClose);
    } else if (text.substr(0, 3) == kOpen || text.substr(0, 3) == kClose) {
      n = kOpen.size();
      out.append(kReplacement);
    } else {
      n = 1;
      out.push_back(text[0]);
    }
    text.remove_prefix(n);
  }
  return out;
}

}  // namespace lh
