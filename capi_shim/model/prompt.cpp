#include "prompt.hpp"

#include "guard.hpp"

namespace lh {
namespace {

// Unicode reserves these two for internal use by programs; no document needs them.
constexpr std::string_view kOpen = "\xEF\xB7\x90";   // U+FDD0
constexpr std::string_view kClose = "\xEF\xB7\x91";  // U+FDD1
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

int32_t checked_size(std::string_view text) {
  require_range("size of the text in bytes", static_cast<int64_t>(text.size()), 0,
                INT32_MAX - 8);
  return static_cast<int32_t>(text.size());
}

void append(std::vector<int32_t>& tokens, const lh_model& model, std::string_view text,
            bool parse_special) {
  if (text.empty()) return;
  const auto more = model.tokenize(text.data(), checked_size(text), false, parse_special);
  tokens.insert(tokens.end(), more.begin(), more.end());
}

std::vector<int32_t> tokenize_marked(const lh_model& model, std::string_view text) {
  std::vector<int32_t> tokens;
  if (llama_vocab_get_add_bos(model.vocab())) {
    tokens.push_back(llama_vocab_bos(model.vocab()));
  }
  bool literal = false;
  while (!text.empty()) {
    const size_t end = text.find(literal ? kClose : kOpen);
    append(tokens, model, text.substr(0, end), !literal);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + kOpen.size());
    literal = !literal;
  }
  if (llama_vocab_get_add_eos(model.vocab())) {
    tokens.push_back(llama_vocab_eos(model.vocab()));
  }
  return tokens;
}

// The text without a BOS that the model will get anyway.
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
  if (parse_special == 0) {
    return model.tokenize(text.data(), checked_size(text), true, false);
  }
  text = without_bos(model, text);
  if (marked) return tokenize_marked(model, text);
  return model.tokenize(text.data(), checked_size(text), true, true);
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
