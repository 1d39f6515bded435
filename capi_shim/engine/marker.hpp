// Markers of thoughts, and the search for them in generated tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model.hpp"

namespace lh {

// Tokens that open or close a thought. A marker with a control or a user-defined token is
// compared by token ids, any other by text, because a model may spell it in other tokens.
class Marker {
 public:
  Marker(const lh_model& model, std::vector<int32_t> tokens);

  const std::vector<int32_t>& tokens() const { return tokens_; }
  size_t n_tokens() const { return tokens_.size(); }
  const std::string& text() const { return text_; }
  bool is_by_ids() const { return is_by_ids_; }
  bool empty() const { return tokens_.empty(); }

 private:
  std::vector<int32_t> tokens_;
  std::string text_;  // pieces of all tokens
  bool is_by_ids_ = false;
};

// Comparison of the first tokens of a text with a marker, after white space.
class MarkerAtStart {
 public:
  enum class Found : uint8_t { kMore, kYes, kNo };

  explicit MarkerAtStart(const Marker& marker) : marker_(marker) {}

  // Adds a token with its piece. Call it until the result is not kMore.
  Found add(int32_t token, std::string_view piece);
  // After kYes: bytes at the end of the last piece that are after the marker.
  size_t n_behind() const { return n_behind_; }

 private:
  Found add_id(int32_t token, std::string_view piece);
  Found add_text(std::string_view piece);

  const Marker& marker_;
  size_t n_space_ = 0;   // tokens of white space
  size_t n_tokens_ = 0;  // tokens after the white space
  std::string text_;     // without white space at the start
  size_t n_behind_ = 0;
};

// Search for a marker anywhere.
class MarkerSearch {
 public:
  explicit MarkerSearch(const Marker& marker) : marker_(marker) {}

  // Adds a token with its piece. Returns true once the marker is complete.
  bool add(int32_t token, std::string_view piece);
  // After true: bytes at the end of the last piece that are after the marker.
  size_t n_behind() const { return n_behind_; }
  // Number of last tokens that the marker may consist of, if it is compared by ids.
  size_t n_held() const { return n_held_; }
  // Tests whether the text ends inside a UTF-8 character.
  bool is_inside_character() const;

 private:
  const Marker& marker_;
  std::vector<int32_t> tokens_;  // as many as the marker has, at most
  size_t n_held_ = 0;
  std::string tail_;  // last bytes
  size_t n_behind_ = 0;
};

}  // namespace lh
