#include "marker.hpp"

#include <algorithm>
#include <utility>

#include "llamaherd.h"
#include "utf8.hpp"

namespace lh {
namespace {

bool is_space(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kSpaces) == std::string_view::npos;
}

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

}  // namespace

Marker::Marker(const lh_model& model, std::vector<int32_t> tokens)
    : tokens_(std::move(tokens)) {
  constexpr uint32_t kSpecial = LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED;
  for (const int32_t token : tokens_) {
    const auto attributes =
        static_cast<uint32_t>(llama_vocab_get_attr(model.vocab(), token));
    is_by_ids_ = is_by_ids_ || (attributes & kSpecial) != 0;
    text_ += model.piece(token);
  }
  is_by_ids_ = is_by_ids_ || text_.empty();
}

MarkerAtStart::Found MarkerAtStart::add(int32_t token, std::string_view piece) {
  return marker_.is_by_ids() ? add_id(token, piece) : add_text(piece);
}

MarkerAtStart::Found MarkerAtStart::add_id(int32_t token, std::string_view piece) {
  if (token != marker_.tokens()[n_tokens_]) {
    const bool may_skip =
        n_tokens_ == 0 && n_space_ < LH_MAX_THOUGHT_SPACE && is_space(piece);
    if (!may_skip) return Found::kNo;
    ++n_space_;
    return Found::kMore;
  }
  return ++n_tokens_ == marker_.n_tokens() ? Found::kYes : Found::kMore;
}

// If the text spells the marker with more tokens than the marker has, it is not
// recognized. This limits the KV cells that a thought needs.
MarkerAtStart::Found MarkerAtStart::add_text(std::string_view piece) {
  if (text_.empty()) {
    const size_t begin = std::min(piece.find_first_not_of(kSpaces), piece.size());
    if (!piece.empty() && begin == piece.size()) {
      return n_space_++ < LH_MAX_THOUGHT_SPACE ? Found::kMore : Found::kNo;
    }
    piece.remove_prefix(begin);
  }
  if (piece.empty()) return Found::kNo;
  text_.append(piece);
  ++n_tokens_;
  if (starts_with(text_, marker_.text())) {
    n_behind_ = text_.size() - marker_.text().size();
    return Found::kYes;
  }
  const bool may_follow =
      starts_with(marker_.text(), text_) &&
      n_tokens_ + n_space_ < marker_.n_tokens() + LH_MAX_THOUGHT_SPACE;
  return may_follow ? Found::kMore : Found::kNo;
}

bool MarkerSearch::add(int32_t token, std::string_view piece) {
  n_behind_ = 0;
  tail_.append(piece);
  bool is_found = false;
  if (marker_.is_by_ids()) {
    tokens_.push_back(token);
    if (tokens_.size() > marker_.n_tokens()) tokens_.erase(tokens_.begin());
    // Finds the longest end of the tokens that is a beginning of the marker.
    n_held_ = tokens_.size();
    while (!std::equal(tokens_.end() - static_cast<std::ptrdiff_t>(n_held_),
                       tokens_.end(), marker_.tokens().begin())) {
      --n_held_;
    }
    is_found = n_held_ == marker_.n_tokens();
  } else {
    const size_t at = tail_.find(marker_.text());
    is_found = at != std::string::npos;
    if (is_found) n_behind_ = tail_.size() - at - marker_.text().size();
  }
  constexpr size_t kCharacter = 4;
  const size_t n_kept = std::max(marker_.text().size(), kCharacter) - 1;
  if (tail_.size() > n_kept) tail_.erase(0, tail_.size() - n_kept);
  return is_found;
}

bool MarkerSearch::is_inside_character() const {
  return utf8_complete_prefix(tail_.data(), tail_.size()) != tail_.size();
}

}  // namespace lh
