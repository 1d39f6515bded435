// Texts of which an answer is one.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grammar.hpp"

namespace lh {

class Choices {
 public:
  // Throws Error (LH_INVALID_ARGUMENT) that names the text which is none.
  explicit Choices(std::vector<std::string> texts);

  const std::vector<std::string>& texts() const { return texts_; }  // as they were given

  // Any of them, with a space before it or without: it depends on the prompt's last
  // character, and on the model, which of these is the usual token.
  const std::shared_ptr<const Grammar>& grammar() const { return grammar_; }

  // The only choice that starts with the answer, or if it is over the one that it is;
  // null if there is none.
  const std::string* find(const std::string& answer, bool is_over) const;

  // An answer that was cut off, without the space before it.
  std::string bare(const std::string& answer) const;

 private:
  using Ways = std::vector<std::pair<std::string, size_t>>;

  Ways::const_iterator first(const std::string& answer) const;
  bool starts(Ways::const_iterator way, const std::string& answer) const;

  std::vector<std::string> texts_;
  Ways ways_;  // to write them, and which text it is; in order
  std::shared_ptr<const Grammar> grammar_;
};

}  // namespace lh
