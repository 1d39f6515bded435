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
// compared by token ids, any other marker by text, because a model may spell it in other
// tokens.
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

// Comparison of a marker with the first tokens of a text, after white space.
class MarkerAtStart {
 public:
  enum class Found : uint8_t { kMore, kYes, kNo };

  explicit MarkerAtStart(const Marker& marker) : marker_(marker) {}

  // Adds a token with its piece. Call it until the result is not kMore.
  Found add(int32_t token, std::string_view piece);
  // After kYes: returns the number of bytes of the last piece that follow the marker.
  size_t n_behind() const { return n_behind_; }

 private:
  Found add_id(int32_t token, std::string_view piece);
  Found add_text(std::string_view piece);

  const Marker& marker_;
  size_t n_space_ = 0;   // tokens of white space
  size_t n_tokens_ = 0;  // tokens after the white space
  std::string text_;     // text without white space at the start
  size_t n_behind_ = 0;
};

// Search for a marker anywhere in a text.
class MarkerSearch {
 public:
  explicit MarkerSearch(const Marker& marker) : marker_(marker) {}

  // Adds a token with its piece. Returns true when the marker is complete.
  bool add(int32_t token, std::string_view piece);
  // After true: returns the number of bytes of the last piece that follow the marker.
  size_t n_behind() const { return n_behind_; }
  // If the marker is compared by ids: returns the number of last tokens that may belong
  // to it.
  size_t n_held() const { return n_held_; }
  // Tests whether the text ends inside a UTF-8 character.
  bool is_inside_character() const;

 private:
  const Marker& marker_;
  std::vector<int32_t> tokens_;  // at most as many as the marker has
  size_t n_held_ = 0;
  std::string tail_;  // last bytes
  size_t n_behind_ = 0;
};

}  // namespace lh
