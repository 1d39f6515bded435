#include "grammar_check.hpp"

#include <cstddef>
#include <string>

#include "guard.hpp"

namespace lh {
namespace {

constexpr int kMaxDepth = 256;
constexpr int kMaxRules = 10'000;

// Where the literal, character class or comment that starts at `i` ends.
size_t end_of_text(std::string_view text, size_t i, char last) {
  for (++i; i < text.size() && text[i] != last; ++i) {
    if (text[i] == '\\' && last != '\n') ++i;
  }
  return i;
}

}  // namespace

void check_grammar(std::string_view text) {
  int depth = 0;
  int n_rules = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"':
        i = end_of_text(text, i, '"');
        break;
      case '[':
        i = end_of_text(text, i, ']');
        break;
      case '#':
        i = end_of_text(text, i, '\n');
        break;
      case '(':
        ++depth;
        break;
      case ')':
        --depth;
        break;
      case ':':
        n_rules += text.substr(i, 3) == "::=" ? 1 : 0;
        break;
      default:
        break;
    }
    if (depth > kMaxDepth) {
      throw Error(LH_SAMPLER_ERROR,
                  "grammar cannot be parsed: its parentheses nest more "
                  "than " +
                      std::to_string(kMaxDepth) + " deep");
    }
    if (n_rules > kMaxRules) {
      throw Error(LH_SAMPLER_ERROR, "grammar cannot be parsed: it has more than " +
                                        std::to_string(kMaxRules) + " rules");
    }
  }
}

}  // namespace lh
