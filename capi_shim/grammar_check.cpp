#include "grammar_check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "guard.hpp"

namespace lh {
namespace {

constexpr size_t kMaxDepth = 256;
constexpr size_t kMaxRules = 10'000;
constexpr size_t kMaxPath = 2'000;  // from a rule to one that it can start with, and on
// libllama compares each way to start with all others. Ways that skip an element often
// match the same characters, and each of them is then tried for each character of a
// token.
constexpr int64_t kMaxStarts = 20'000;
constexpr int64_t kMaxSkips = 200;
constexpr int64_t kUnbounded = INT32_MAX;

[[noreturn]] void refuse(const std::string& why) {
  throw Error(LH_SAMPLER_ERROR, "grammar cannot be parsed: " + why);
}

[[noreturn]] void refuse_ways(int64_t most, const char* what) {
  refuse("a rule has more than " + std::to_string(most) + " ways to " + what);
}

constexpr size_t kCharacter = SIZE_MAX;  // in place of a rule

// An element of an alternative: a character, or a rule, perhaps repeated.
struct Symbol {
  size_t rule;
  int64_t most = 1;  // times
  bool may_lack = false;
};
using Alternative = std::vector<Symbol>;
using Rule = std::vector<Alternative>;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         c == '-';
}

// Reads what check_grammar needs to know of a grammar, and lets pass what is no grammar.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::vector<Rule> read() {
    while (i_ < text_.size()) read_one();
    return std::move(rules_);
  }

 private:
  void read_one() {
    const char c = text_[i_];
    if (is_name(c)) {
      read_name();
    } else if (c == '"' || c == '[' || c == '<') {
      const bool is_empty = text_.substr(i_, 2) == "\"\"";
      skip_text(c == '"' ? '"' : c == '[' ? ']' : '>');
      add({is_empty ? new_rule() : kCharacter});
    } else if (c == '#') {
      while (i_ < text_.size() && text_[i_] != '\n') ++i_;
    } else if (c == '{') {
      read_times();
    } else {
      ++i_;
      if (c == '.') add({kCharacter});
      if (c == '*') repeat(0, kUnbounded);
      if (c == '+') repeat(1, kUnbounded);
      if (c == '?') repeat(0, 1);
      if (c == '|' && !open_.empty()) rules_[open_.back()].emplace_back();
      if (c == '(') open_group();
      if (c == ')' && open_.size() > 1) open_.pop_back();
    }
  }

  void read_name() {
    const size_t start = i_;
    while (i_ < text_.size() && is_name(text_[i_])) ++i_;
    const size_t rule = rule_of(std::string(text_.substr(start, i_ - start)));
    size_t next = i_;
    while (next < text_.size() && (text_[next] == ' ' || text_[next] == '\t')) ++next;
    if (text_.substr(next, 3) != "::=") {
      add({rule});
      return;
    }
    i_ = next + 3;
    open_ = {rule};
    rules_[rule] = Rule(1);
    ++n_defined_;
    if (n_defined_ > kMaxRules) {
      refuse("it has more than " + std::to_string(kMaxRules) + " rules");
    }
  }

  void open_group() {
    if (open_.size() > kMaxDepth) {
      refuse("its parentheses nest more than " + std::to_string(kMaxDepth) + " deep");
    }
    const size_t group = new_rule();
    add({group});
    open_.push_back(group);
  }

  // Past a literal or a class, whose last character may stand in it behind a backslash.
  void skip_text(char last) {
    for (++i_; i_ < text_.size() && text_[i_] != last; ++i_) {
      if (text_[i_] == '\\') ++i_;
    }
    i_ = std::min(i_ + 1, text_.size());
  }

  // {m}, {m,} or {m,n}
  void read_times() {
    const size_t end = std::min(text_.find('}', i_), text_.size());
    const std::string_view inside = text_.substr(i_ + 1, end - i_ - 1);
    i_ = std::min(end + 1, text_.size());
    const size_t comma = inside.find(',');
    const int64_t least = number(inside.substr(0, comma)).value_or(0);
    if (comma == std::string_view::npos) {
      repeat(least, least);
    } else {
      repeat(least, number(inside.substr(comma + 1)).value_or(kUnbounded));
    }
  }

  static std::optional<int64_t> number(std::string_view text) {
    std::optional<int64_t> n;
    for (const char c : text) {
      if (c < '0' || c > '9') continue;
      n = std::min(n.value_or(0) * 10 + (c - '0'), kUnbounded);
    }
    return n;
  }

  void repeat(int64_t least, int64_t most) {
    if (open_.empty() || rules_[open_.back()].back().empty()) return;
    Symbol& last = rules_[open_.back()].back().back();
    last.most = std::min(last.most * most, kUnbounded);
    last.may_lack = last.may_lack || least == 0;
  }

  void add(const Symbol& symbol) {
    if (!open_.empty()) rules_[open_.back()].back().push_back(symbol);
  }

  // A rule with one alternative, which is empty.
  size_t new_rule() {
    rules_.emplace_back(1);
    return rules_.size() - 1;
  }

  size_t rule_of(const std::string& name) {
    const auto [found, is_new] = names_.try_emplace(name, rules_.size());
    // If it is never defined, that is an error of libllama's.
    if (is_new) rules_[new_rule()].back().push_back({kCharacter});
    return found->second;
  }

  std::string_view text_;
  size_t i_ = 0;
  size_t n_defined_ = 0;
  std::vector<size_t> open_;  // the rule being defined, then its groups
  std::vector<Rule> rules_;
  std::unordered_map<std::string, size_t> names_;
};

// Walks from each rule to all it can start with, as libllama does.
class Starts {
 public:
  explicit Starts(std::vector<Rule> rules)
      : rules_(std::move(rules)), found_(rules_.size()), depth_(rules_.size()) {}

  void check() {
    for (size_t rule = 0; rule < rules_.size(); ++rule) visit(rule);
  }

 private:
  struct Found {
    bool may_be_empty = false;
    int64_t n_starts = 0;  // ways to come to a first character, 0: not yet known
    int64_t n_skips = 0;   // those of them that pass by something that may be empty
  };

  Found visit(size_t rule) {
    Found& found = found_[rule];
    if (found.n_starts > 0) return found;
    if (depth_[rule] > 0) {
      // Back at a rule without a character. If each step was to the end of an
      // alternative, libllama comes to the same state and stops; else to larger and
      // larger ones.
      const bool grows =
          std::find(path_.begin() + depth_[rule] - 1, path_.end(), true) != path_.end();
      if (grows) refuse("left recursion: a rule comes to itself before any character");
      return {false, 1, 0};
    }
    if (path_.size() > kMaxPath) {
      refuse("its rules refer to each other more than " + std::to_string(kMaxPath) +
             " deep");
    }
    depth_[rule] = static_cast<std::ptrdiff_t>(path_.size()) + 1;
    Found sum{false, 1, 0};
    for (const Alternative& alternative : rules_[rule]) {
      bool empty_so_far = true;
      for (size_t i = 0; i < alternative.size() && empty_so_far; ++i) {
        const Symbol& symbol = alternative[i];
        path_.push_back(i + 1 < alternative.size() || symbol.most > 1);
        const Found first =
            symbol.rule == kCharacter ? Found{false, 1, 0} : visit(symbol.rule);
        path_.pop_back();
        const bool again = first.may_be_empty && symbol.most < kUnbounded;
        const int64_t times = again ? std::max<int64_t>(symbol.most, 1) : 1;
        sum.n_starts += first.n_starts * times;
        sum.n_skips +=
            i > 0 ? first.n_starts * times : first.n_starts * (times - 1) + first.n_skips;
        if (sum.n_starts > kMaxStarts) refuse_ways(kMaxStarts, "start");
        if (sum.n_skips > kMaxSkips) refuse_ways(kMaxSkips, "skip what may be empty");
        empty_so_far = symbol.may_lack || symbol.most == 0 || first.may_be_empty;
      }
      sum.may_be_empty = sum.may_be_empty || empty_so_far;
    }
    depth_[rule] = 0;
    found = sum;
    return sum;
  }

  std::vector<Rule> rules_;
  std::vector<Found> found_;
  std::vector<std::ptrdiff_t> depth_;  // of a rule on the path, from 1
  std::vector<bool> path_;             // whether a step left something to do behind it
};

}  // namespace

void check_grammar(std::string_view text) { Starts(Reader(text).read()).check(); }

}  // namespace lh
