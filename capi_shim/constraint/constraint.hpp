// Constraint of the tokens of an answer, with the progress of one answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace lh {

// Interface of three kinds of constraint: GrammarMatcher (GBNF), LlgConstraint (JSON
// Schema, regular expressions, Lark) and ChoiceConstraint (choices). All functions except
// prepare() may throw Error (LH_SAMPLER_ERROR); afterwards the constraint cannot be used.
class Constraint {
 public:
  virtual ~Constraint() = default;
  Constraint& operator=(const Constraint&) = delete;

  // Copies the constraint with its current state; the copies are independent.
  virtual std::unique_ptr<Constraint> copy() const = 0;

  // Computes the result of the next query in advance. May run in parallel with other
  // constraints.
  virtual void prepare() noexcept {}

  // Tests whether the token may come next. End-of-generation tokens are allowed if the
  // text is complete.
  virtual bool allows(int32_t token) = 0;

  // Returns all tokens that may come next, in increasing order.
  virtual std::vector<int32_t> allowed_tokens() = 0;

  // Returns the tokens that must come next, split as by the tokenizer; no tokens if
  // several may come next. More forced tokens may follow them.
  virtual std::vector<int32_t> forced_tokens() = 0;

  // Adds an allowed token to the text.
  virtual void accept(int32_t token) = 0;

  // Tests whether the state that all copies share has failed. In this case every copy
  // fails, and the constraint must be created again.
  virtual bool is_spent() const { return false; }

  // is_complete: tests whether the text satisfies the constraint. is_at_end: tests
  // whether, in addition, nothing can be added to the text.
  virtual bool is_complete() = 0;
  virtual bool is_at_end() = 0;

  // Adds text that may end within a token. Returns whether the text is then complete.
  virtual bool completes(std::string_view text) { return text.empty() && is_complete(); }

 protected:
  Constraint() = default;
  Constraint(const Constraint&) = default;
};

}  // namespace lh
