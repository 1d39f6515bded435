#include "gbnf.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "guard.hpp"
#include "utf8.hpp"

namespace lh {
namespace {

constexpr size_t kMaxParts = 1'000'000;
// Limits for the recursive traversal of trees.
constexpr size_t kMaxDepth = 256;      // nested parentheses
constexpr uint32_t kMaxHeight = 1024;  // height of a tree, which nested operators
                                       // increase

constexpr uint32_t kLastCharacter = 0x10FFFF;
// Characters that no text contains: surrogates, and NUL, which would end the text.
constexpr CharacterRange kNul = {0, 0};
constexpr CharacterRange kSurrogates = {0xD800, 0xDFFF};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '-';
}

std::optional<uint32_t> hex_digit(char c) {
  if (is_digit(c)) return static_cast<uint32_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<uint32_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<uint32_t>(c - 'A' + 10);
  return std::nullopt;
}

// Returns all characters outside the ranges.
CharacterClass complement(CharacterClass ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  CharacterClass outside;
  uint32_t next = 0;  // first character after all previous ranges
  for (const CharacterRange& range : ranges) {
    if (range.first > next) outside.push_back({next, range.first - 1});
    next = std::max(next, range.last + 1);
  }
  if (next <= kLastCharacter) outside.push_back({next, kLastCharacter});
  return outside;
}

// Returns the characters in the ranges, or outside them if negated.
CharacterClass normal_form(CharacterClass ranges, bool negated) {
  CharacterClass others = negated ? std::move(ranges) : complement(std::move(ranges));
  others.push_back(kNul);
  others.push_back(kSurrogates);
  return complement(std::move(others));
}

class Parser {
 public:
  Parser(std::string_view text, const TokenNames& tokens)
      : text_(text), tokens_(tokens) {}

  Gbnf parse() {
    skip_space(true);
    while (!at_end()) read_rule();
    for (const auto& [name, rule] : rules_) {
      if (!defined_[rule]) refuse_grammar("rule \"" + name + "\" is not defined");
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) refuse_grammar("it has no rule \"root\"");
    grammar_.root = root->second;
    return std::move(grammar_);
  }

 private:
  using Kind = GbnfNode::Kind;

  [[noreturn]] void refuse(const std::string& why) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + place(), '\n');
    refuse_grammar("line " + std::to_string(line) + ": " + why);
  }
  [[noreturn]] void refuse_here(const std::string& expected) const {
    std::string_view there = text_.substr(i_, text_.find_first_of("\r\n", i_) - i_);
    there = there.substr(0, 20);
    std::string rest;
    append_valid_utf8(rest,
                      there.substr(0, utf8_complete_prefix(there.data(), there.size())));
    refuse("expected " + expected + (rest.empty() ? " before its end" : " at " + rest));
  }
  std::ptrdiff_t place() const {
    return static_cast<std::ptrdiff_t>(std::min(i_, text_.size()));
  }

  bool at_end() const { return i_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[i_]; }
  bool take(std::string_view expected) {
    if (text_.substr(i_, expected.size()) != expected) return false;
    i_ += expected.size();
    return true;
  }

  // Skips blanks and comments; skips line ends only where a rule cannot end.
  void skip_space(bool lines) {
    for (; !at_end(); ++i_) {
      const char c = peek();
      if (c == '#') i_ = std::min(text_.find_first_of("\r\n", i_), text_.size());
      const bool is_line = peek() == '\n' || peek() == '\r';
      if (at_end() || (is_line ? !lines : c != ' ' && c != '\t' && c != '#')) return;
    }
  }

  void read_rule() {
    if (!is_name(peek())) refuse_here("the name of a rule");
    const std::string name(read_name());
    const uint32_t rule = rule_of(name);
    if (defined_[rule]) refuse("rule \"" + name + "\" is defined twice");
    skip_space(false);
    if (!take("::=")) refuse_here("::=");
    skip_space(true);
    GbnfNode tree = read_choice(0);
    if (!at_end() && peek() != '\n' && peek() != '\r') refuse_here("the end of a rule");
    skip_space(true);
    grammar_.rules[rule] = std::move(tree);
    defined_[rule] = true;
  }

  std::string_view read_name() {
    const size_t start = i_;
    while (is_name(peek())) ++i_;
    return text_.substr(start, i_ - start);
  }

  uint32_t rule_of(const std::string& name) {
    const auto next = static_cast<uint32_t>(grammar_.rules.size());
    const auto [entry, is_new] = rules_.try_emplace(name, next);
    if (is_new) {
      grammar_.rules.emplace_back();
      defined_.push_back(false);
    }
    return entry->second;
  }

  GbnfNode read_choice(size_t depth) {
    std::vector<GbnfNode> ways;
    do {
      if (!ways.empty()) skip_space(true);
      ways.push_back(read_sequence(depth));
    } while (take("|"));
    return node_of(Kind::kChoice, std::move(ways));
  }

  GbnfNode read_sequence(size_t depth) {
    std::vector<GbnfNode> parts;
    for (;; skip_space(depth > 0)) {
      if (++n_parts_ > kMaxParts) {
        refuse_grammar("it has more than " + std::to_string(kMaxParts) + " parts");
      }
      const char c = peek();
      if (c == '"') {
        parts.push_back(read_literal());
      } else if (c == '[') {
        parts.push_back(read_class());
      } else if (c == '.') {
        ++i_;
        parts.push_back(class_of({}, true));
      } else if (c == '<' || c == '!') {
        parts.push_back(read_token());
      } else if (c == '(') {
        parts.push_back(read_group(depth + 1));
      } else if (c == '*' || c == '+' || c == '?' || c == '{') {
        if (parts.empty()) refuse_here("something to repeat");
        parts.back() = read_repeat(std::move(parts.back()), depth);
      } else if (is_name(c)) {
        parts.emplace_back();
        parts.back().kind = Kind::kRule;
        parts.back().value = rule_of(std::string(read_name()));
      } else {
        const auto is_empty = [](const GbnfNode& part) { return part.is_empty(); };
        parts.erase(std::remove_if(parts.begin(), parts.end(), is_empty), parts.end());
        return node_of(Kind::kSequence, std::move(parts));
      }
    }
  }

  // If there is only one child, returns it without a new node.
  GbnfNode node_of(Kind kind, std::vector<GbnfNode> children) {
    if (children.size() == 1) return std::move(children.front());
    GbnfNode node;
    node.kind = kind;
    for (GbnfNode& child : children) add_child(node, std::move(child));
    return node;
  }

  void add_child(GbnfNode& node, GbnfNode child) const {
    node.height = std::max(node.height, child.height + 1);
    if (node.height > kMaxHeight) refuse("it nests too deep");
    node.children.push_back(std::move(child));
  }

  GbnfNode read_group(size_t depth) {
    if (depth > kMaxDepth) {
      refuse("its parentheses nest more than " + std::to_string(kMaxDepth) + " deep");
    }
    ++i_;
    skip_space(true);
    GbnfNode group = read_choice(depth);
    if (!take(")")) refuse_here(")");
    return group;
  }

  GbnfNode read_repeat(GbnfNode child, size_t depth) {
    GbnfNode node;
    node.kind = Kind::kRepeat;
    node.most = GbnfNode::kUnbounded;
    if (take("?")) {
      node.most = 1;
    } else if (take("+")) {
      node.least = 1;
    } else if (!take("*")) {
      read_times(node, depth > 0);
    }
    if (node.most == 0 || child.is_empty()) return {};
    add_child(node, std::move(child));
    return node;
  }

  // {m}, {m,} or {m,n}
  void read_times(GbnfNode& node, bool lines) {
    ++i_;
    skip_space(lines);
    node.least = read_number();
    node.most = node.least;
    skip_space(lines);
    if (take(",")) {
      skip_space(lines);
      node.most = is_digit(peek()) ? read_number() : GbnfNode::kUnbounded;
      skip_space(lines);
    }
    if (!take("}")) refuse_here("}");
    if (node.least > node.most) {
      refuse("{" + std::to_string(node.least) + "," + std::to_string(node.most) +
             "} has a minimum above its maximum");
    }
  }

  // The largest number below kUnbounded replaces all larger numbers: no grammar can be so
  // large.
  uint32_t read_number() {
    if (!is_digit(peek())) refuse_here("a number");
    constexpr uint64_t kLargest = GbnfNode::kUnbounded - 1;
    uint64_t number = 0;
    for (; is_digit(peek()); ++i_) {
      number = std::min(number * 10 + static_cast<uint64_t>(peek() - '0'), kLargest);
    }
    return static_cast<uint32_t>(number);
  }

  GbnfNode read_literal() {
    GbnfNode node;
    node.kind = Kind::kLiteral;
    ++i_;
    while (!take("\"")) {
      node.text.push_back(read_character("\""));
      const uint32_t last = node.text.back();
      if (last == 0 || (last >= kSurrogates.first && last <= kSurrogates.last)) {
        refuse("NUL and halves of surrogate pairs are not characters of a text");
      }
    }
    return node;
  }

  GbnfNode read_class() {
    ++i_;
    const bool negated = take("^");
    CharacterClass ranges;
    while (!take("]")) {
      const uint32_t first = read_character("]");
      uint32_t last = first;
      if (peek() == '-' && text_.substr(i_, 2) != "-]") {
        ++i_;
        last = read_character("]");
      }
      if (first > last) refuse("a range in [] ends before it starts");
      ranges.push_back({first, last});
    }
    if (ranges.empty()) refuse("[] has no character");
    return class_of(std::move(ranges), negated);
  }

  GbnfNode class_of(CharacterClass ranges, bool negated) {
    GbnfNode node;
    node.kind = Kind::kClass;
    node.value = static_cast<uint32_t>(grammar_.classes.size());
    grammar_.classes.push_back(normal_form(std::move(ranges), negated));
    return node;
  }

  // Reads a character, or an escape sequence, before `last`.
  char32_t read_character(const char* last) {
    if (at_end()) refuse_here(last);
    if (peek() == '\\') return read_escape();
    const Utf8Character character = read_utf8(text_.substr(i_));
    if (!character.valid) refuse("it is not UTF-8");
    i_ += character.size;
    return character.value;
  }

  char32_t read_escape() {
    ++i_;
    const char c = peek();
    constexpr std::string_view kThemselves = "\\\"[]-";
    if (!at_end() && kThemselves.find(c) != std::string_view::npos) {
      ++i_;
      return static_cast<char32_t>(c);
    }
    if (take("n")) return '\n';
    if (take("r")) return '\r';
    if (take("t")) return '\t';
    if (take("x")) return read_hex(2);
    if (take("u")) return read_hex(4);
    if (take("U")) return read_hex(8);
    refuse_here(R"(one of n r t x u U \ " [ ] - after \)");
  }

  char32_t read_hex(int n_digits) {
    uint32_t character = 0;
    for (int k = 0; k < n_digits; ++k, ++i_) {
      const auto digit = hex_digit(peek());
      if (!digit) refuse_here(std::to_string(n_digits) + " hexadecimal digits");
      character = character << 4U | *digit;
    }
    if (character > kLastCharacter) refuse("an escape is above the last character");
    return character;
  }

  // Reads <text> or <[id]>, optionally after !
  GbnfNode read_token() {
    GbnfNode node;
    node.kind = take("!") ? Kind::kNotToken : Kind::kToken;
    if (take("<[")) {
      node.value = read_number();
      if (!take("]>")) refuse_here("]>");
      if (node.value >= static_cast<uint32_t>(tokens_.n_vocab)) {
        refuse("token " + std::to_string(node.value) + " is not among the model's " +
               std::to_string(tokens_.n_vocab));
      }
      return node;
    }
    const size_t start = i_;
    const size_t end = text_.find('>', i_);
    if (peek() != '<' || end == std::string_view::npos) refuse_here("<token>");
    i_ = end + 1;
    const std::string_view text = text_.substr(start, i_ - start);
    const int32_t token = tokens_.of_text(text);
    if (token < 0) refuse("the model has no token " + std::string(text));
    node.value = static_cast<uint32_t>(token);
    return node;
  }

  std::string_view text_;
  const TokenNames& tokens_;
  size_t i_ = 0;
  size_t n_parts_ = 0;
  Gbnf grammar_;
  // an ordered container, so that the first missing rule is reported
  std::map<std::string, uint32_t> rules_;
  std::vector<bool> defined_;
};

}  // namespace

void refuse_grammar(const std::string& why) {
  throw Error(LH_SAMPLER_ERROR, "grammar cannot be parsed: " + why);
}

Gbnf parse_gbnf(std::string_view text, const TokenNames& tokens) {
  try {
    return Parser(text, tokens).parse();
  } catch (const Error& e) {
    if (text.find("::=") != std::string_view::npos) throw;
    const bool is_lark = text.find("start:") != std::string_view::npos;
    const std::string hint =
        is_lark
            ? "; a Lark grammar begins with the line %llguidance {}"
            : "; a label, or a list of labels, is a constraint by choices, not a grammar";
    throw Error(e.code(), e.what() + hint);
  }
}

}  // namespace lh
