// Choices (possible texts of an answer) and the tokens that write them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "constraint.hpp"
#include "llamaherd.h"
#include "model.hpp"
#include "token_tree.hpp"

namespace lh {

// Choices as a tree of tokens. A choice is written only in the tokens into which the
// tokenizer splits its text. A model's probabilities of other splits say little about the
// text.
class Choices {
 public:
  using Texts = std::vector<std::string>;

  // Checks texts. Throws Error (LH_INVALID_ARGUMENT) that names the first invalid text.
  static void check(const Texts& texts);

  // Tokenizes the texts, both with and without a leading space. Throws the same errors as
  // check().
  Choices(std::shared_ptr<const Texts> texts, const lh_model& model);
  // Uses the caller's tokens. Throws Error (LH_INVALID_ARGUMENT) unless the paths form a
  // tree whose leaves are choices.
  Choices(std::shared_ptr<const Texts> texts, const lh_model& model,
          const lh_choice_paths& paths);

  const std::shared_ptr<const Texts>& texts() const { return texts_; }
  const std::shared_ptr<const TokenTree>& tree() const { return tree_; }
  // For each node: the choice that ends there; -1: none.
  const std::vector<int32_t>& ends() const { return ends_; }
  // Tests whether the choices were created with equal paths; null means without paths.
  bool has_paths(const lh_choice_paths* paths) const;

  static constexpr int32_t kStart = TokenTree::kRoot;
  // ended_by: choice that ends at a node. only: the choice to which all paths from the
  // node lead. Both return -1 if there is no such choice.
  int32_t ended_by(int32_t node) const;
  int32_t only(int32_t node) const { return only_[slot_of(node)]; }

  // Returns the text of an answer that ended at a node: a choice, or the beginning of a
  // choice if the answer was truncated.
  std::string text(int32_t node, const std::string& written, bool is_complete) const;

 private:
  static size_t slot_of(int32_t node) { return static_cast<size_t>(node) + 1; }
  void find_only();

  std::shared_ptr<const Texts> texts_;
  const lh_model* model_;
  bool is_given_ = false;  // the caller supplied the paths
  std::shared_ptr<const TokenTree> tree_;
  std::vector<int32_t> ends_;  // for each node
  std::vector<int32_t> only_;  // for kStart, then for each node
};

// Progress of an answer through its choices.
class ChoiceConstraint : public Constraint {
 public:
  ChoiceConstraint(std::shared_ptr<const Choices> choices, const lh_model& model)
      : choices_(std::move(choices)), model_(&model) {}

  std::unique_ptr<Constraint> copy() const override;
  bool allows(int32_t token) override;
  std::vector<int32_t> allowed_tokens() override;
  std::vector<int32_t> forced_tokens() override;
  void accept(int32_t token) override;
  bool is_complete() override;
  bool is_at_end() override;

  const Choices& choices() const { return *choices_; }
  // Called at the start of an answer: the answer must follow the path to this node and
  // end there.
  void aim_at(int32_t node);
  // Returns the next token of that path; -1 if there is none.
  int32_t aimed_token() const;

  std::string text(const std::string& written, bool is_complete) const {
    return choices_->text(node_, written, is_complete);
  }

 private:
  std::shared_ptr<const Choices> choices_;
  const lh_model* model_;
  int32_t node_ = Choices::kStart;
  // nodes in reverse order, the next node last; empty: any path
  std::vector<int32_t> aim_;
  bool is_aimed_ = false;
};

}  // namespace lh
