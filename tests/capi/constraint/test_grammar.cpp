// Tests grammars with the toy model's vocabulary, whose first 256 tokens are the bytes.
#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <set>

#include "grammar_matcher.hpp"
#include "guard.hpp"
#include "toy.hpp"

namespace {

const lh_model& the_model() {
  static const std::unique_ptr<lh_model> model = toy::model();
  return *model;
}

std::shared_ptr<const lh::Grammar> grammar(const std::string& gbnf) {
  const auto token_of_text = [](std::string_view text) {
    return text == "<|x|>" ? fake::kControl : -1;
  };
  return std::make_shared<lh::Grammar>(gbnf, lh::TokenNames{token_of_text, fake::kVocab});
}

lh::GrammarMatcher matcher(const std::string& gbnf) {
  return {grammar(gbnf), the_model()};
}

// Adds the text byte by byte; returns false at the first byte that is not allowed.
bool starts(lh::GrammarMatcher& m, const std::string& text) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    const auto token = static_cast<int32_t>(static_cast<uint8_t>(c));
    if (!m.allows(token)) return false;
    m.accept(token);
    return true;
  });
}

bool matches(const std::string& gbnf, const std::string& text) {
  auto m = matcher(gbnf);
  return starts(m, text) && m.allows(fake::kEos);
}

std::string reason(const std::string& gbnf) {
  try {
    grammar(gbnf);
  } catch (const lh::Error& e) {
    CHECK(e.code() == LH_SAMPLER_ERROR);
    const std::string text = e.what();
    const std::string start = "grammar cannot be parsed: ";
    CHECK(text.find(start) == 0);
    return text.substr(start.size());
  }
  return "";
}

std::string repeated(const std::string& text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("each part of the notation matches what it stands for") {
  struct Case {
    const char* gbnf;
    std::vector<std::string> inside;
    std::vector<std::string> outside;
  };
  const std::vector<Case> cases = {
      {"root ::= \"yes\" | \"no\"", {"yes", "no"}, {"", "ye", "yesno", "maybe"}},
      {"root ::= \"\"", {""}, {"a"}},
      {"root ::= \"a\" |", {"a", ""}, {"aa"}},
      {"root ::= [a-cx]", {"a", "b", "c", "x"}, {"d", "", "ab"}},
      {"root ::= [^a-c]", {"d", "\n", "\xC3\xA9"}, {"a", "b", "c"}},
      {"root ::= [a-]", {"a", "-"}, {"b"}},
      {"root ::= [\\]\\-\\\\^]", {"]", "-", "\\", "^"}, {"["}},
      {"root ::= . .", {"ab", "\n\xF0\x9F\x98\x80"}, {"a", "abc"}},
      {"root ::= \"\\x41\\u00e9\\U0001F600\\n\\t\\r\\\"\"",
       {"A\xC3\xA9\xF0\x9F\x98\x80\n\t\r\""},
       {"A"}},
      {"root ::= \"ab\"*", {"", "ab", "abab"}, {"a", "aba", "abb"}},
      {"root ::= \"a\"+ \"b\"?", {"a", "aaab"}, {"", "b", "abb"}},
      {"root ::= \"a\"{2}", {"aa"}, {"a", "aaa"}},
      {"root ::= \"a\"{ 2 , }", {"aa", "aaaaa"}, {"a", ""}},
      {"root ::= \"a\"{0,2} \"b\"{1,3}", {"b", "aab", "abbb"}, {"aaab", "aa", "bbbb"}},
      {"root ::= \"a\"{0}", {""}, {"a"}},
      {"root ::= (\"a\" | \"b\"){2,3}*", {"", "ab", "aaabb"}, {"a"}},
      {"root ::= one-1 two\none-1 ::= \"1\"\ntwo ::= one-1 | \"2\"", {"11", "12"}, {"1"}},
      {"# first\r\n\r\n root::=( # one\n \"a\" |\n\n \"b\"\n)\t\"c\" # end\nx ::= x",
       {"ac", "bc"},
       {"a", "abc"}},
      {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "(()", ")"}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.gbnf);
    for (const std::string& text : c.inside) CHECK_MESSAGE(matches(c.gbnf, text), text);
    for (const std::string& text : c.outside) {
      CHECK_MESSAGE(!matches(c.gbnf, text), text);
    }
  }
}

TEST_CASE("what is no grammar is refused with the line and what is wrong in it") {
  const auto lacks = [](const std::string& gbnf, const std::string& part) {
    const std::string text = reason(gbnf);
    CHECK_MESSAGE(text.find(part) != std::string::npos, gbnf, ": ", text);
  };
  lacks("", "no rule \"root\"");
  lacks("start ::= \"a\"", "no rule \"root\"");
  lacks("sports, politics", "line 1: expected ::= at , politics; a label, or a list");
  lacks("root ::= a b\na ::= \"x\"", "rule \"b\" is not defined");
  lacks("root ::= \"a\"\nroot ::= \"b\"", "line 2: rule \"root\" is defined twice");
  lacks("root = \"a\"", "line 1: expected ::= at = \"a\"");
  lacks("root ::= \"a\"\n\n| \"b\"", "line 3: expected the name of a rule at | \"b\"");
  lacks("root ::= \"a\" )", "expected the end of a rule at )");
  lacks("root ::= (\"a\"", "expected ) before its end");
  lacks("root ::= \"a", "expected \" before its end");
  lacks("root ::= [a", "expected ] before its end");
  lacks("root ::= [a-", "expected ] before its end");
  lacks("root ::= []", "has no character");
  lacks("root ::= [z-a]", "ends before it starts");
  lacks("root ::= * \"a\"", "expected something to repeat at *");
  lacks("root ::= \"a\"{}", "expected a number at }");
  lacks("root ::= \"a\"{1", "expected } before its end");
  lacks("root ::= \"a\"{3,2}", "{3,2} has a minimum above its maximum");
  lacks("root ::= \"\\q\"", "after \\ at q\"");
  lacks("root ::= \"\\xG0\"", "expected 2 hexadecimal digits at G0");
  lacks("root ::= \"\\U00110000\"", "above the last character");
  lacks("root ::= \"\\ud800\"", "surrogate");
  lacks("root ::= \"\\x00\"", "NUL");
  lacks("root ::= \"\xFF\"", "not UTF-8");
  lacks("root ::= <nothing>", "the model has no token <nothing>");
  lacks("root ::= <[260]>", "token 260 is not among the model's 260");
  lacks("root ::= <[1>", "expected ]>");
  lacks("root ::= !a", "expected <token> at a");
  lacks("root ::= <a", "expected <token> at <a");
}

TEST_CASE("what would take too much memory or stack is refused") {
  const auto nested = [](int n) {
    return "root ::= " + repeated("(", n) + "\"a\"" + repeated(")", n);
  };
  CHECK(matches(nested(256), "a"));
  CHECK(reason(nested(257)).find("nest more than 256 deep") != std::string::npos);
  CHECK(reason("root ::= " + repeated("(", 100'000)).find("256") != std::string::npos);
  CHECK(matches("root ::= \"a\"" + repeated("?", 1000), "a"));
  CHECK(reason("root ::= \"a\"" + repeated("*", 100'000)).find("too deep") !=
        std::string::npos);
  CHECK(reason("root ::= \"a\"{1000000000}").find("1000000 states") != std::string::npos);
  CHECK(reason("root ::= ((\"a\"{1,2000}){1,2000}){1,99999999999999}").find("states") !=
        std::string::npos);
  CHECK(matches("root ::= (\"\"{4000000000}){4000000000} \"\"*", ""));
  // A repetition that adds no state would double the time of the one around it.
  for (const char* empty : {"\"\"", "()", "(\"a\"{0} | )", "\"a\"{0}", "\"a\"{0,0}+"}) {
    CHECK(matches("root ::= " + std::string(empty) + repeated("{1,2}", 12), ""));
  }
  CHECK(matches("root ::= \"\"" + repeated("{1,2}", 1000), ""));
  CHECK(matches("root ::= \"a\"{0}" + repeated("{1,2}", 1000) + " \"b\"", "b"));
  CHECK_FALSE(matches("root ::= (\"a\"" + repeated(" \"\"", 400'000) + "){400000}", ""));
  CHECK(reason("root ::= a" + repeated(" a", 1'000'000)).find("1000000 parts") !=
        std::string::npos);
}

TEST_CASE("rules that start with themselves, and empty ones, match what they say") {
  CHECK(matches("root ::= root \"a\" | \"b\"", "baaa"));
  CHECK_FALSE(matches("root ::= root \"a\" | \"b\"", "baab"));
  CHECK(matches("root ::= e root \"x\" | \"y\"\ne ::= f\nf ::= \"\"", "yxx"));
  CHECK(matches("root ::= (\"a\"*)* root | \"b\"", "aaab"));
  CHECK(matches("root ::= (\"\")* (\"a\" | \"a\" \"a\")*", "aaaaa"));
  CHECK(matches("root ::= e e \"a\" e\ne ::= \"x\"? f\nf ::= \"\" | e", "xxxaxx"));
  // Rules that match no text allow no token.
  auto endless = matcher("root ::= root");
  CHECK(endless.allowed_tokens().empty());
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 50'000; ++i) {
    chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  }
  CHECK(matches(chain + "r50000 ::= \"a\"?", "a"));
}

TEST_CASE("texts that can be read in many ways cost little more than others") {
  const std::string twofold = "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"d\"";
  CHECK(matches(twofold, repeated("a", 300) + "d" + repeated("bc", 150)));
  CHECK_FALSE(matches(twofold, repeated("a", 300) + "d" + repeated("bc", 151)));
  std::string doubling = "root ::= r0\n";
  for (int i = 0; i < 30; ++i) {
    const std::string next = " r" + std::to_string(i + 1);
    doubling += "r" + std::to_string(i) + " ::=" + next + next + "\n";
  }
  CHECK(matches(doubling + "r30 ::= \"a\"?", "aaaa"));
  CHECK(matches("root ::= (\"a\"?){0,2000}", repeated("a", 50)));
  CHECK(matches("root ::= root root | \"a\"", repeated("a", 60)));
  std::string labels = "root ::= \"label\"";
  for (int i = 0; i < 30'000; ++i) labels += " | \"" + std::to_string(i) + "\"";
  CHECK(matches(labels, "29999"));
}

TEST_CASE("a grammar that takes too much for one text ends that text") {
  auto m = matcher("root ::= (\"a\"?){0,100000}");
  CHECK(starts(m, repeated("a", 10)));
  CHECK_THROWS_WITH_AS(starts(m, repeated("a", 100)),
                       "grammar has too many ways to read the text so far", lh::Error);
  // These parses are not stored; they are computed again from each earlier position.
  auto empty = matcher("root ::= \"a\" root (\"\" | \"\"){0,150000} | \"z\"");
  CHECK(starts(empty, repeated("a", 9)));
  CHECK_THROWS_AS(starts(empty, "z"), lh::Error);
}

TEST_CASE("characters are allowed byte by byte, and only whole ones") {
  auto m = matcher("root ::= [\\u00e9\\u20ac-\\u20ad\\U0001F600]");
  const auto next = [&] {
    const auto tokens = m.allowed_tokens();
    return std::set<int32_t>(tokens.begin(), tokens.end());
  };
  CHECK(next() == std::set<int32_t>{0xC3, 0xE2, 0xF0});
  m.accept(0xE2);
  CHECK(next() == std::set<int32_t>{0x82});
  CHECK_FALSE(m.allows(fake::kEos));
  CHECK_FALSE(m.allows('a'));
  m.accept(0x82);
  CHECK(next() == std::set<int32_t>{0xAC, 0xAD});
  m.accept(0xAD);
  CHECK(next() == std::set<int32_t>{fake::kEos});

  // Refuses overlong forms, surrogates, and values beyond the last character.
  const auto allowed = [](const std::string& start, int32_t token) {
    auto any = matcher("root ::= [\\x00-\\U0010FFFF]");
    CHECK(starts(any, start));
    return any.allows(token);
  };
  CHECK_FALSE(allowed("", 0));
  CHECK_FALSE(allowed("", 0xC1));
  CHECK_FALSE(allowed("", 0xF5));
  CHECK_FALSE(allowed("\xE0", 0x9F));
  CHECK(allowed("\xE0", 0xA0));
  CHECK_FALSE(allowed("\xED", 0xA0));
  CHECK(allowed("\xED", 0x9F));
  CHECK_FALSE(allowed("\xF0", 0x8F));
  CHECK_FALSE(allowed("\xF4", 0x90));
  CHECK(allowed("\xF4", 0x8F));
}

TEST_CASE("tokens can be asked for by number or text, or excluded") {
  auto m = matcher("root ::= <|x|> \"a\" | !<[97]> <[98]> | \"ac\"");
  CHECK(m.allows(fake::kControl));  // allowed and expected
  CHECK(m.allows('a'));             // starts "ac"
  CHECK(m.allows('z'));
  m.accept(fake::kControl);
  CHECK(m.allowed_tokens() == std::vector<int32_t>{'a', 'b'});
  m.accept('b');
  CHECK(m.allowed_tokens() == std::vector<int32_t>{fake::kEos});

  // The token matches both by its number and by its characters.
  auto both = matcher("root ::= \"a\" \"b\" | <[97]> \"c\"");
  both.accept('a');
  CHECK(both.allowed_tokens() == std::vector<int32_t>{'b', 'c'});
  // After a token that ends inside a character, the next token must complete it.
  auto half = matcher("root ::= <[195]> \"x\" | \"\xC3\xA9\"");
  half.accept(0xC3);
  CHECK(half.allowed_tokens() == std::vector<int32_t>{'x'});
  auto none = matcher("root ::= !<[97]> | !<[98]>");
  CHECK(none.allowed_tokens().size() == fake::kVocab - 1);  // all except </s>
  auto one = matcher("root ::= !<[97]>");
  CHECK_FALSE(one.allows('a'));
  CHECK(one.allowed_tokens().size() == fake::kVocab - 2);
}

TEST_CASE("a token that is not allowed is refused, not read") {
  auto m = matcher("root ::= \"a\"");
  CHECK_THROWS_AS(m.accept('b'), lh::Error);
}

// ---- against a plain search
// -------------------------------------------------------------

namespace {

// A random grammar, both as GBNF and as a function that finds all ends of a match.
class RandomGrammar {
 public:
  explicit RandomGrammar(uint32_t seed) : random_(seed) {
    for (size_t rule = 0; rule < kRules; ++rule) rules_.push_back(part(3));
  }

  std::string gbnf() const {
    std::string text;
    for (size_t rule = 0; rule < kRules; ++rule) {
      text += name(rule) + " ::= " + rules_[rule].gbnf + "\n";
    }
    return text;
  }

  // The set grows from the empty set to a fixed point, so that a rule may start with
  // itself.
  bool matches(const std::string& text) {
    text_ = text;
    known_.clear();
    for (size_t before = SIZE_MAX; before != known_.size();) {
      before = known_.size();
      for (size_t rule = 0; rule < kRules; ++rule) {
        for (size_t from = 0; from <= text.size(); ++from) {
          for (const size_t to : rules_[rule].ends(from)) known_.insert({rule, from, to});
        }
      }
    }
    return known_.count({0, 0, text.size()}) != 0;
  }

 private:
  static constexpr size_t kRules = 3;
  using Ends = std::set<size_t>;
  struct Part {
    std::string gbnf;
    std::function<Ends(size_t)> ends;
  };

  static std::string name(size_t rule) {
    return rule == 0 ? "root" : "r" + std::to_string(rule);
  }
  size_t below(size_t n) { return random_() % n; }

  Part character() {
    const std::string set = std::vector<std::string>{"a", "b", "ab"}[below(3)];
    return {"[" + set + "]", [this, set](size_t from) {
              const bool fits =
                  from < text_.size() && set.find(text_[from]) != std::string::npos;
              return fits ? Ends{from + 1} : Ends{};
            }};
  }

  Part rule() {
    const size_t rule = below(kRules);
    return {name(rule), [this, rule](size_t from) {
              Ends ends;
              for (const auto& [which, start, end] : known_) {
                if (which == rule && start == from) ends.insert(end);
              }
              return ends;
            }};
  }

  Part sequence(int depth) {
    const Part a = part(depth - 1);
    const Part b = part(depth - 1);
    return {"(" + a.gbnf + " " + b.gbnf + ")", [a, b](size_t from) {
              Ends ends;
              for (const size_t middle : a.ends(from)) ends.merge(b.ends(middle));
              return ends;
            }};
  }

  Part choice(int depth) {
    const Part a = part(depth - 1);
    const Part b = part(depth - 1);
    return {"(" + a.gbnf + " | " + b.gbnf + ")", [a, b](size_t from) {
              Ends ends = a.ends(from);
              ends.merge(b.ends(from));
              return ends;
            }};
  }

  Part repeat(int depth) {
    const Part a = part(depth - 1);
    const size_t least = below(3);
    const size_t most = below(2) == 0 ? SIZE_MAX : least + below(3);
    std::string times = std::to_string(least) + ",";
    if (most != SIZE_MAX) times += std::to_string(most);
    return {"(" + a.gbnf + "){" + times + "}", [a, least, most](size_t from) {
              Ends ends;
              Ends now = {from};
              for (size_t n = 0; !now.empty() && n <= std::min(most, least + 10); ++n) {
                if (n >= least) ends.insert(now.begin(), now.end());
                Ends next;
                for (const size_t at : now) next.merge(a.ends(at));
                now = next;
              }
              return ends;
            }};
  }

  Part part(int depth) {
    const size_t kind = below(depth > 0 ? 6 : 2);
    if (kind == 0) return rule();
    if (kind == 1) return character();
    if (kind == 2) return repeat(depth);
    if (kind == 3) return choice(depth);
    if (kind == 4) return sequence(depth);
    return {"\"\"", [](size_t from) { return Ends{from}; }};
  }

  std::mt19937 random_;
  std::vector<Part> rules_;
  std::string text_;
  std::set<std::tuple<size_t, size_t, size_t>> known_;
};

}  // namespace

TEST_CASE("random grammars match what a plain search finds") {
  int n_matches = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    RandomGrammar random(seed);
    const std::string gbnf = random.gbnf();
    for (size_t n = 0; n <= 4; ++n) {
      for (size_t bits = 0; bits < (size_t{1} << n); ++bits) {
        std::string text;
        for (size_t k = 0; k < n; ++k) text += (bits >> k & 1U) != 0 ? 'b' : 'a';
        const bool expected = random.matches(text);
        n_matches += expected ? 1 : 0;
        CHECK_MESSAGE(matches(gbnf, text) == expected, gbnf, "on ", text);
      }
    }
  }
  CHECK(n_matches > 300);
}

TEST_CASE("the tokens that are allowed are those that are allowed one by one") {
  std::mt19937 random(3);
  for (uint32_t seed = 0; seed < 200; ++seed) {
    auto m = matcher(RandomGrammar(seed).gbnf() + "x ::= \"\xC3\xA9\" <[7]>");
    for (int step = 0; step < 6; ++step) {
      std::vector<int32_t> expected;
      for (int32_t token = 0; token < fake::kVocab; ++token) {
        if (m.allows(token)) expected.push_back(token);
      }
      const std::vector<int32_t> allowed = m.allowed_tokens();
      CHECK(allowed == expected);
      if (allowed.empty()) break;
      m.accept(allowed[random() % allowed.size()]);
    }
  }
}

TEST_CASE("any text is read as a grammar or refused") {
  std::mt19937 random(23);
  const std::string alphabet = "ab|()*+?{}0,9:= \n\"[]#<>.\\-!^x";
  int n_read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = "root ::= ";
    while (random() % 12 != 0) {
      text += random() % 15 == 0 ? "\nb ::=" : "";
      text += alphabet[random() % alphabet.size()];
    }
    if (!reason(text).empty()) continue;
    ++n_read;
    auto m = matcher(text);
    for (int step = 0; step < 4; ++step) {
      const auto allowed = m.allowed_tokens();
      if (allowed.empty()) break;
      m.accept(allowed[random() % allowed.size()]);
    }
  }
  CHECK(n_read > 500);
}
