#include "choices.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "guard.hpp"
#include "utf8.hpp"

namespace lh {
namespace {

constexpr int32_t kNoChoice = -1;
constexpr int32_t kNothingYet = -2;

void check_text(const std::string& text, const std::string& name) {
  require(!text.empty(), name + " must not be empty");
  std::string_view left = text;
  while (!left.empty()) {
    const Utf8Character c = read_utf8(left);
    if (!c.valid || c.value == 0) {
      throw Error(
          LH_INVALID_ARGUMENT,
          name + (c.valid ? " must not contain a NUL character" : " is not valid UTF-8"));
    }
    left.remove_prefix(c.size);
  }
}

std::string name_of(size_t i) { return "choices[" + std::to_string(i) + "]"; }

bool is_same(const std::vector<int32_t>& mine, const int32_t* theirs) {
  return std::equal(mine.begin(), mine.end(), theirs);
}

}  // namespace

// ---- Choices ----------------------------------------------------------------------

void Choices::check(const Texts& texts) {
  for (size_t i = 0; i < texts.size(); ++i) check_text(texts[i], name_of(i));
}

Choices::Choices(std::shared_ptr<const Texts> texts, const lh_model& model)
    : texts_(std::move(texts)), model_(&model) {
  check(*texts_);
  std::vector<int32_t> tokens;
  std::vector<int32_t> parents;
  std::unordered_map<uint64_t, int32_t> nodes;  // by parent and token
  const auto add = [&](const std::string& text, size_t choice) {
    int32_t at = kStart;
    for (const int32_t token : model.tokenize_inside(text)) {
      const uint64_t key =
          (uint64_t{static_cast<uint32_t>(at)} << 32U) | static_cast<uint32_t>(token);
      const auto next = static_cast<int32_t>(tokens.size());
      const auto [entry, is_new] = nodes.emplace(key, next);
      if (is_new) {
        tokens.push_back(token);
        parents.push_back(at);
        ends_.push_back(kNoChoice);
      }
      at = entry->second;
    }
    require(at != kStart, name_of(choice) + " has no tokens");
    int32_t& end = ends_[static_cast<size_t>(at)];
    if (end == kNoChoice) end = static_cast<int32_t>(choice);
  };
  // If a text that begins with a space is itself a choice, it means this choice, not the
  // choice without the space.
  for (size_t i = 0; i < texts_->size(); ++i) add((*texts_)[i], i);
  for (size_t i = 0; i < texts_->size(); ++i) {
    if ((*texts_)[i].front() != ' ') add(' ' + (*texts_)[i], i);
  }
  const auto n_nodes = static_cast<int32_t>(tokens.size());
  tree_ = std::make_shared<const TokenTree>("choices", n_nodes, tokens.data(),
                                            parents.data(), model.n_vocab());
  find_only();
}

Choices::Choices(std::shared_ptr<const Texts> texts, const lh_model& model,
                 const lh_choice_paths& paths)
    : texts_(std::move(texts)), model_(&model), is_given_(true) {
  check(*texts_);
  tree_ = std::make_shared<const TokenTree>("paths", paths.n_nodes, paths.token,
                                            paths.parent, model.n_vocab());
  deref(paths.choice, "paths choice");
  const auto last = static_cast<int32_t>(texts_->size()) - 1;
  for (int32_t k = 0; k < paths.n_nodes; ++k) {
    const std::string name = "paths choice[" + std::to_string(k) + "]";
    require_range(name.c_str(), paths.choice[k], kNoChoice, last);
    require(!tree_->is_leaf(k) || paths.choice[k] >= 0,
            name + " is -1, but the path ends there");
  }
  ends_.assign(paths.choice, paths.choice + paths.n_nodes);
  find_only();
}

void Choices::find_only() {
  const size_t n = ends_.size();
  only_.assign(n + 1, kNothingYet);
  const auto join = [&](size_t slot, int32_t choice) {
    int32_t& known = only_[slot];
    known = known == kNothingYet || known == choice ? choice : kNoChoice;
  };
  for (size_t k = n; k-- > 0;) {
    const size_t slot = k + 1;
    if (ends_[k] != kNoChoice) join(slot, ends_[k]);
    join(slot_of(tree_->parents()[k]), only_[slot]);
  }
}

bool Choices::has_paths(const lh_choice_paths* paths) const {
  if (paths == nullptr || !is_given_) return paths == nullptr && !is_given_;
  return paths->n_nodes == static_cast<int32_t>(ends_.size()) &&
         is_same(tree_->tokens(), paths->token) &&
         is_same(tree_->parents(), paths->parent) && is_same(ends_, paths->choice);
}

int32_t Choices::ended_by(int32_t node) const {
  return node == kStart ? kNoChoice : ends_[static_cast<size_t>(node)];
}

std::string Choices::text(int32_t node, const std::string& written,
                          bool is_complete) const {
  const auto choice = [&](int32_t i) { return (*texts_)[static_cast<size_t>(i)]; };
  if (is_complete && only(node) >= 0) return choice(only(node));
  if (is_complete && ended_by(node) >= 0) return choice(ended_by(node));
  // Tokens of a path before its choice: a space, or the end of the prompt that was
  // tokenized again.
  int32_t end = node;
  while (ended_by(end) < 0) end = *tree_->children(end).begin();
  size_t n_bytes = 0;
  for (const int32_t at : tree_->path_up(end)) {
    n_bytes += model_->piece(tree_->token(at)).size();
  }
  const size_t n_choice = choice(ended_by(end)).size();
  const size_t n_before = n_bytes > n_choice ? n_bytes - n_choice : 0;
  return written.substr(std::min(n_before, written.size()));
}

// ---- ChoiceConstraint --------------------------------------------------------------

std::unique_ptr<Constraint> ChoiceConstraint::copy() const {
  return std::make_unique<ChoiceConstraint>(*this);
}

void ChoiceConstraint::aim_at(int32_t node) {
  is_aimed_ = true;
  aim_ = choices_->tree()->path_up(node);
}

int32_t ChoiceConstraint::aimed_token() const {
  return aim_.empty() ? -1 : choices_->tree()->token(aim_.back());
}

bool ChoiceConstraint::is_complete() {
  return is_aimed_ ? aim_.empty() : choices_->ended_by(node_) >= 0;
}

bool ChoiceConstraint::is_at_end() {
  return choices_->only(node_) >= 0 || (is_aimed_ && aim_.empty());
}

bool ChoiceConstraint::allows(int32_t token) {
  if (is_aimed_) return token == aimed_token();
  if (model_->is_eog(token) && is_complete()) return true;
  return choices_->tree()->child(node_, token) != Choices::kStart;
}

std::vector<int32_t> ChoiceConstraint::allowed_tokens() {
  if (is_aimed_) return {aimed_token()};
  const TokenTree& tree = *choices_->tree();
  std::vector<int32_t> tokens;
  for (const int32_t child : tree.children(node_)) tokens.push_back(tree.token(child));
  if (is_complete()) {
    const auto& ends = model_->eog_tokens();
    tokens.insert(tokens.end(), ends.begin(), ends.end());
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

std::vector<int32_t> ChoiceConstraint::forced_tokens() {
  const TokenTree& tree = *choices_->tree();
  std::vector<int32_t> tokens;
  for (int32_t at = node_; choices_->ended_by(at) < 0;) {
    if (tree.children(at).size() != 1) break;
    at = *tree.children(at).begin();
    tokens.push_back(tree.token(at));
  }
  return tokens;
}

void ChoiceConstraint::accept(int32_t token) {
  const int32_t next = choices_->tree()->child(node_, token);
  if (next != Choices::kStart) {
    node_ = next;
    if (!aim_.empty()) aim_.pop_back();
  } else if (!model_->is_eog(token)) {
    throw Error(LH_INTERNAL, "a token that no choice has there");
  }
}

}  // namespace lh
