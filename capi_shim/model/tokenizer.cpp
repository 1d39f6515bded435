#include "tokenizer.hpp"

#include <algorithm>
#include <array>

#include "guard.hpp"
#include "large_stack.hpp"
#include "utf8.hpp"

namespace lh {
namespace {

// Runs of this many characters need less than 100 KB of stack.
constexpr size_t kShortRun = 256;
// Largest part of a stack that a text may use.
constexpr size_t kMostStack = size_t{512} << 20U;
// Texts that may use a larger part of a stack are tokenized one after the other.
constexpr size_t kLargeStack = size_t{64} << 20U;
// Stack for all functions that do not recurse.
constexpr size_t kBaseStack = size_t{256} << 10U;

bool is_space(char c) { return kSpaces.find(c) != std::string_view::npos; }

// Returns the number of bytes of the first character. libllama reads each byte of invalid
// UTF-8 as a character.
size_t character_size(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  const size_t n = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < n; ++i) {
    if (i >= text.size() || !continues_character(text[i])) return 1;
  }
  return n;
}

// Numbers of characters of the longest runs.
struct LongestRuns {
  size_t word = 0;
  size_t line = 0;
};

LongestRuns longest_runs(std::string_view text) {
  LongestRuns longest;
  LongestRuns run;
  bool is_after_space = false;
  bool is_after_line = false;
  for (size_t i = 0; i < text.size(); i += character_size(text.substr(i))) {
    const bool begins_word = is_after_space && !is_space(text[i]);
    // One space before a word may belong to its match.
    if (begins_word) run.word = 1;
    if (begins_word && is_after_line) run.line = 1;
    is_after_space = is_space(text[i]);
    is_after_line = is_after_space && (is_after_line || text[i] == '\n');
    longest.word = std::max(longest.word, ++run.word);
    longest.line = std::max(longest.line, ++run.line);
  }
  return longest;
}

// Pre-tokenizers whose time is quadratic in the length of runs of some characters.
struct Quadratic {
  std::string_view kind;
  std::string_view name;
  std::string_view characters;
  // Runs before these characters, or at the end of the text, need linear time; empty:
  // none.
  std::string_view fast_before;
};
constexpr std::array<Quadratic, 2> kQuadratic = {
    Quadratic{"superbpe", "digits", "0123456789", ""},
    Quadratic{"deepseek-llm", "spaces", " \t\v\f",
              "\r\n!\"#$%&'()*+,-./:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
              "abcdefghijklmnopqrstuvwxyz{|}~"},
};
// Largest sum of the squares of the lengths of runs: about 5 seconds.
constexpr uint64_t kMostSquares = 40'000'000;

std::string kind_of(const llama_model* model) {
  const llama_vocab* vocab = llama_model_get_vocab(model);
  if (llama_vocab_type(vocab) != LLAMA_VOCAB_TYPE_BPE) return "";
  std::array<char, 64> kind{};
  const int32_t n =
      llama_model_meta_val_str(model, "tokenizer.ggml.pre", kind.data(), kind.size());
  return n > 0 ? kind.data() : "default";
}

// Throws Error if a run needs too much stack; otherwise returns the stack that it needs.
size_t stack_of(size_t n_characters, size_t per_character, const std::string& kind,
                const char* end) {
  if (per_character == 0 || n_characters <= kMostStack / per_character) {
    return n_characters * per_character;
  }
  throw Error(LH_INVALID_ARGUMENT,
              "the text has " + std::to_string(n_characters) + " characters without a " +
                  end + ", and libllama's tokenizer of this model (\"" + kind +
                  "\") can read at most " + std::to_string(kMostStack / per_character) +
                  " at once; shorten or divide them");
}

}  // namespace

Tokenizer::Tokenizer(const llama_model* model)
    : vocab_(llama_model_get_vocab(model)), kind_(kind_of(model)) {}

std::vector<int32_t> Tokenizer::tokens(std::string_view text, bool add_special,
                                       bool parse_special) const {
  require_range("size of the text in bytes", static_cast<int64_t>(text.size()), 0,
                INT32_MAX - 8);
  if (kind_.empty()) return call(text, add_special, parse_special);
  const LongestRuns runs = longest_runs(text);
  if (runs.line <= kShortRun) return call(text, add_special, parse_special);
  const Depth bytes = depth();
  const size_t needed = std::max(stack_of(runs.word, bytes.in_word, kind_, "space"),
                                 stack_of(runs.line, bytes.in_line, kind_, "line break"));
  check_time(text);
  if (needed <= kShortRun * std::max(bytes.in_word, bytes.in_line)) {
    return call(text, add_special, parse_special);
  }
  // Other threads would otherwise use as much memory each at the same time.
  static std::mutex one_large_stack;
  std::unique_lock<std::mutex> lock(one_large_stack, std::defer_lock);
  if (needed > kLargeStack) lock.lock();
  std::vector<int32_t> tokens;
  run_with_stack(kBaseStack + 2 * needed,
                 [&] { tokens = call(text, add_special, parse_special); });
  return tokens;
}

std::vector<int32_t> Tokenizer::call(std::string_view text, bool add_special,
                                     bool parse_special) const {
  if (llama_vocab_type(vocab_) == LLAMA_VOCAB_TYPE_NONE) {
    throw Error(LH_MODEL_ERROR, "the model has no vocabulary: it accepts only token ids");
  }
  // A token has at least one byte, except the special tokens at both ends.
  std::vector<int32_t> tokens(text.size() + 4);
  for (int n_tries = 0; n_tries < 2; ++n_tries) {
    const int32_t n = llama_tokenize(
        vocab_, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
        static_cast<int32_t>(tokens.size()), add_special, parse_special);
    if (n == INT32_MIN)
      throw Error(LH_INVALID_ARGUMENT, "the text is too long to tokenize");
    tokens.resize(static_cast<size_t>(n < 0 ? -n : n));
    if (n >= 0) return tokens;
  }
  throw Error(LH_INTERNAL, "llama_tokenize needs a larger buffer than it requested");
}

Tokenizer::Depth Tokenizer::depth() const {
  const std::scoped_lock lock(mutex_);
  if (!depth_) depth_ = measure();
  return *depth_;
}

// Tokenizes runs of all classes of characters that pre-tokenizers distinguish.
Tokenizer::Depth Tokenizer::measure() const {
  constexpr size_t kRun = 256;
  constexpr size_t kStack = size_t{4} << 20U;
  constexpr size_t kUnknown = 1024;  // bytes per character where stacks are not measured
  constexpr size_t kConstant = 32;   // less is not recursion
  const auto n_bytes = [&](const std::string& text) {
    return run_with_stack(kStack, [&] {
      try {
        call(text, false, false);
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
        // Some vocabularies without bytes refuse spaces, after they were matched.
      }
    });
  };
  const size_t base = n_bytes("a");
  if (base == 0) return {kUnknown, kUnknown};
  const auto per_character = [&](std::string_view unit) -> size_t {
    std::string run;
    size_t n_unit = 0;
    for (size_t i = 0; i < unit.size(); i += character_size(unit.substr(i))) ++n_unit;
    for (size_t n = 0; n < kRun; n += n_unit) run += unit;
    const size_t reached = n_bytes(run);
    const size_t more = reached > base ? reached - base : 0;
    return more / kRun < kConstant ? 0 : (more + kRun - 1) / kRun;
  };
  Depth depth;
  for (const std::string_view unit : {"a",
                                      "A",
                                      "0",
                                      " ",
                                      "\n",
                                      ".",
                                      "$",
                                      "'",
                                      "\x01",
                                      "aB",
                                      "a1",
                                      "1,",
                                      u8"\u00e9",
                                      u8"e\u0301",
                                      u8"\u0301",
                                      u8"\u3042",
                                      u8"\u4e2d",
                                      u8"\uac00",
                                      u8"\U0001F600",
                                      u8"\u3002",
                                      u8"\u00a0",
                                      u8"\u00b2"}) {
    depth.in_word = std::max(depth.in_word, per_character(unit));
  }
  depth.in_line = std::max(per_character("a "), per_character(". "));
  return depth;
}

void Tokenizer::check_time(std::string_view text) const {
  for (const Quadratic& slow : kQuadratic) {
    if (slow.kind != kind_) continue;
    uint64_t sum = 0;
    uint64_t longest = 0;
    for (size_t i = 0; i < text.size();) {
      const size_t start = text.find_first_of(slow.characters, i);
      if (start == std::string_view::npos) break;
      i = std::min(text.find_first_not_of(slow.characters, start), text.size());
      const bool is_fast = i == text.size()
                               ? !slow.fast_before.empty()
                               : slow.fast_before.find(text[i]) != std::string_view::npos;
      if (is_fast) continue;
      sum += (i - start) * (i - start);
      longest = std::max<uint64_t>(longest, i - start);
    }
    if (sum <= kMostSquares) return;
    throw Error(LH_INVALID_ARGUMENT,
                "the text has long runs of " + std::string(slow.name) +
                    " (the longest has " + std::to_string(longest) +
                    " characters), for which libllama's tokenizer of this model (\"" +
                    kind_ + "\") needs quadratic time; shorten them");
  }
}

}  // namespace lh
