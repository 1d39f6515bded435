// Texts of which an answer is one, and the tokens that write them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "constraint.hpp"
#include "llamaherd.h"
#include "model.hpp"

namespace lh {

// Choices as a tree of tokens. A choice is written in the tokenizer's own cuts and in no
// other: a model gives other cuts probabilities that say little about the text.
class Choices {
 public:
  using Texts = std::vector<std::string>;

  // Checks texts. Throws Error (LH_INVALID_ARGUMENT) that names the first bad one.
  static void check(const Texts& texts);

  // Cuts the texts, with a space before them and without one. Throws as check().
  Choices(std::shared_ptr<const Texts> texts, const lh_model& model);
  // Takes the cuts from the caller. Throws Error (LH_INVALID_ARGUMENT) unless they are a
  // tree of tokens whose leaves are choices.
  Choices(std::shared_ptr<const Texts> texts, const lh_model& model,
          const lh_choice_paths& paths);

  const std::shared_ptr<const Texts>& texts() const { return texts_; }
  // Of each node, as in lh_choice_paths.
  const std::vector<int32_t>& tokens() const { return tokens_; }
  const std::vector<int32_t>& parents() const { return parents_; }
  const std::vector<int32_t>& ends() const { return ends_; }
  bool has_paths(const lh_choice_paths* paths) const;  // made with the same; null: none

  static constexpr int32_t kStart = -1;  // the node that all paths begin at
  // The child of a node by its token; kStart: none.
  int32_t child(int32_t node, int32_t token) const;
  // Tokens of a node's children, in the order of their numbers.
  std::vector<int32_t> tokens_after(int32_t node) const;
  bool is_leaf(int32_t node) const;
  // The choice that a node ends, and the only one that its paths lead to; -1: none.
  int32_t ended_by(int32_t node) const;
  int32_t only(int32_t node) const { return only_[slot_of(node)]; }

  // An answer that ended at a node: its choice, or a beginning of one if it was cut off.
  std::string text(int32_t node, const std::string& written, bool is_complete) const;

 private:
  static size_t slot_of(int32_t node) { return static_cast<size_t>(node) + 1; }
  void index();

  std::shared_ptr<const Texts> texts_;
  const lh_model* model_;
  bool is_given_ = false;  // the paths are the caller's
  // Of each node, parents first.
  std::vector<int32_t> tokens_;
  std::vector<int32_t> parents_;
  std::vector<int32_t> ends_;
  // Of each slot: kStart comes first.
  std::vector<int32_t> only_;
  std::vector<int32_t> first_child_;
  std::vector<int32_t> children_;
};

// How far an answer has followed its choices.
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
  bool reads(const std::vector<int32_t>& tokens, size_t n_bytes) override;

  const Choices& choices() const { return *choices_; }
  // From the start only the path to this node may be written, at which the answer ends.
  void aim_at(int32_t node);
  // The next token of that path; -1: there is none.
  int32_t aimed_token() const;

  std::string text(const std::string& written, bool is_complete) const {
    return choices_->text(node_, written, is_complete);
  }

 private:
  std::shared_ptr<const Choices> choices_;
  const lh_model* model_;
  int32_t node_ = Choices::kStart;
  std::vector<int32_t> aim_;  // nodes from the last to the next one; empty: any path
  bool is_aimed_ = false;
};

}  // namespace lh
