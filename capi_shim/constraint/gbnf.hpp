// Parser of GBNF, llama.cpp's grammar notation (see its grammars/README.md), into trees.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lh {

struct CharacterRange {
  uint32_t first;
  uint32_t last;
};

// Set of characters: sorted ranges with gaps between them, without NUL and surrogates.
using CharacterClass = std::vector<CharacterRange>;

struct GbnfNode {
  enum class Kind : uint8_t {
    kLiteral,   // text
    kClass,     // one character of classes[value]
    kToken,     // the token `value`
    kNotToken,  // any other token
    kRule,      // a text that rules[value] matches
    kSequence,  // all children, one after the other
    kChoice,    // one of the children
    kRepeat     // the child, repeated `least` to `most` times
  };
  static constexpr uint32_t kUnbounded = UINT32_MAX;

  Kind kind = Kind::kSequence;
  uint32_t value = 0;
  uint32_t least = 0;
  uint32_t most = 0;
  uint32_t height = 0;  // height of the subtree
  std::u32string text;
  std::vector<GbnfNode> children;

  // Tests whether the node matches only the empty text and has no states.
  bool is_empty() const {
    return text.empty() && children.empty() &&
           (kind == Kind::kLiteral || kind == Kind::kSequence);
  }
};

struct Gbnf {
  std::vector<GbnfNode> rules;
  std::vector<CharacterClass> classes;
  uint32_t root = 0;
};

// Tokens that a grammar names: their texts, such as "<think>", and their ids.
struct TokenNames {
  std::function<int32_t(std::string_view text)> of_text;  // -1: there is none
  int32_t n_vocab = 0;
};

// Throws Error (LH_SAMPLER_ERROR), with the reason, unless the text names a token.
[[noreturn]] void refuse_grammar(const std::string& why);

// Parses a grammar. Throws Error (LH_SAMPLER_ERROR) with the line for a syntax error,
// excessive nesting or a missing rule.
Gbnf parse_gbnf(std::string_view text, const TokenNames& tokens);

}  // namespace lh
