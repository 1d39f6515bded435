#include "choices.hpp"

#include <algorithm>
#include <string_view>

#include "guard.hpp"
#include "utf8.hpp"

namespace lh {
namespace {

std::u32string read(const std::string& text, const std::string& name) {
  require(!text.empty(), name + " must not be empty");
  std::u32string characters;
  std::string_view left = text;
  while (!left.empty()) {
    const Utf8Character c = read_utf8(left);
    require(c.valid, name + " is not valid UTF-8");
    require(c.value != 0, name + " must not contain a NUL character");
    characters.push_back(c.value);
    left.remove_prefix(c.size);
  }
  return characters;
}

}  // namespace

Choices::Choices(std::vector<std::string> texts) : texts_(std::move(texts)) {
  std::vector<std::u32string> characters;
  const auto add = [&](std::u32string text, std::string bytes, size_t i) {
    characters.push_back(std::move(text));
    ways_.emplace_back(std::move(bytes), i);
  };
  for (size_t i = 0; i < texts_.size(); ++i) {
    add(read(texts_[i], "choices[" + std::to_string(i) + "]"), texts_[i], i);
  }
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (texts_[i].front() != ' ') add(U' ' + characters[i], ' ' + texts_[i], i);
  }
  grammar_ = std::make_shared<Grammar>(Grammar::of_texts(std::move(characters)));
  // What is a choice itself stands for that one, not for another behind a space.
  const auto by_text = [](const auto& a, const auto& b) { return a.first < b.first; };
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  std::stable_sort(ways_.begin(), ways_.end(), by_text);
  ways_.erase(std::unique(ways_.begin(), ways_.end(), same), ways_.end());
}

Choices::Ways::const_iterator Choices::first(const std::string& answer) const {
  return std::lower_bound(
      ways_.begin(), ways_.end(), answer,
      [](const auto& way, const std::string& text) { return way.first < text; });
}

bool Choices::starts(Ways::const_iterator way, const std::string& answer) const {
  return way != ways_.end() && way->first.compare(0, answer.size(), answer) == 0;
}

const std::string* Choices::find(const std::string& answer, bool is_over) const {
  const auto way = first(answer);
  if (!starts(way, answer)) return nullptr;
  const bool is_it = is_over && way->first == answer;
  return is_it || !starts(way + 1, answer) ? &texts_[way->second] : nullptr;
}

std::string Choices::bare(const std::string& answer) const {
  if (answer.empty() || answer.front() != ' ') return answer;
  for (auto way = first(answer); starts(way, answer); ++way) {
    if (texts_[way->second] == way->first) return answer;  // the space is part of it
  }
  return answer.substr(1);
}

}  // namespace lh
