// Generated text: valid UTF-8 that ends before a stop text.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lh {

// Buffer for the bytes of one client's tokens.
class TextBuffer {
 public:
  using Stops = std::shared_ptr<const std::vector<std::string>>;  // all texts are
                                                                  // nonempty

  explicit TextBuffer(Stops stops) : stops_(std::move(stops)) {}
  explicit TextBuffer(std::vector<std::string> stops = {})
      : TextBuffer(std::make_shared<Stops::element_type>(std::move(stops))) {}

  // Adds the bytes of one token. Returns true when a stop text is complete; the text then
  // ends before the stop text. If `may_stop` is false, stop texts that end in this token
  // are ignored.
  bool append(std::string_view piece, bool may_stop = true);

  // Ends the text: all bytes that were held back become final, except an incomplete
  // character.
  void finish();

  // Replaces the text after finish().
  void replace(std::string text) { text_ = std::move(text); }

  const std::string& text() const { return text_; }

  // Returns the number of bytes that later tokens cannot change. The remaining bytes
  // could become part of a stop text.
  size_t n_stable() const;

 private:
  Stops stops_;
  std::string text_;     // valid UTF-8
  std::string pending_;  // an incomplete character, at most 3 bytes
  bool finished_ = false;
};

}  // namespace lh
