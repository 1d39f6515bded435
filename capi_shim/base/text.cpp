#include "text.hpp"

#include <algorithm>

#include "utf8.hpp"

namespace lh {

bool TextBuffer::append(std::string_view piece, bool may_stop) {
  pending_.append(piece);
  const size_t complete = utf8_complete_prefix(pending_.data(), pending_.size());
  const size_t before = text_.size();
  append_valid_utf8(text_, std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);

  if (!may_stop) return false;
  size_t cut = std::string::npos;
  for (const std::string& stop : *stops_) {
    // A match may begin in the old text, but must end in the new part.
    const size_t from = before >= stop.size() ? before - stop.size() + 1 : 0;
    cut = std::min(cut, text_.find(stop, from));
  }
  if (cut == std::string::npos) return false;
  // A stop text that is not valid UTF-8 itself may begin in the middle of a character.
  text_.resize(utf8_complete_prefix(text_.data(), cut));
  pending_.clear();
  finished_ = true;
  return true;
}

void TextBuffer::finish() {
  pending_.clear();
  finished_ = true;
}

size_t TextBuffer::n_stable() const {
  if (finished_) return text_.size();
  size_t held = 0;
  for (const std::string& stop : *stops_) {
    for (size_t n = std::min(stop.size() - 1, text_.size()); n > held; --n) {
      if (text_.compare(text_.size() - n, n, stop, 0, n) == 0) {
        held = n;
        break;
      }
    }
  }
  // A stop text that is not valid UTF-8 itself may begin in the middle of a character.
  // Callers still receive only whole characters.
  return utf8_complete_prefix(text_.data(), text_.size() - held);
}

}  // namespace lh
