// The only caller of llama_tokenize.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llama.h"

namespace lh {

// Tokenizes texts of any length on threads with any stack.
//
// Many pre-tokenizers of BPE vocabularies are regular expressions, which libllama matches
// with std::regex. libstdc++ recurses once per character of a match, and a run of 26,700
// letters fills a stack of 8 MB. Texts with long runs are therefore tokenized on a thread
// whose stack is large enough (docs/decisions/0049-long-runs.md).
class Tokenizer {
 public:
  explicit Tokenizer(const llama_model* model);

  // Calls llama_tokenize with a sufficiently large buffer. Throws Error if a run of the
  // text needs too much memory or time.
  std::vector<int32_t> tokens(std::string_view text, bool add_special,
                              bool parse_special) const;

 private:
  // Bytes of stack for each character of a run: text that std::regex may match at once.
  struct Depth {
    size_t in_word = 0;  // runs end before the character that follows whitespace
    size_t in_line = 0;  // runs end before the character that follows a line break
  };

  std::vector<int32_t> call(std::string_view text, bool add_special,
                            bool parse_special) const;
  // Measures at first use. Throws Error.
  Depth depth() const;
  Depth measure() const;
  // Throws Error if the time for the text, quadratic in its runs, is too long.
  void check_time(std::string_view text) const;

  const llama_vocab* vocab_;
  std::string kind_;  // of the pre-tokenizer; empty if there is none
  mutable std::mutex mutex_;
  mutable std::optional<Depth> depth_;
};

}  // namespace lh
