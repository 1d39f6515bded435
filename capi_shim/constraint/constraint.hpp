// What the tokens of an answer have to follow, and how far one answer has followed it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace lh {

// Three ways to follow one: GrammarMatcher (GBNF), LlgConstraint (JSON Schema, regular
// expressions, Lark) and ChoiceConstraint (choices). All but prepare() may throw Error
// (LH_SAMPLER_ERROR); the constraint is then of no use any more.
class Constraint {
 public:
  virtual ~Constraint() = default;
  Constraint& operator=(const Constraint&) = delete;

  // Where this one is; the two go on apart.
  virtual std::unique_ptr<Constraint> copy() const = 0;

  // Works ahead for what is asked next. May run beside that of others.
  virtual void prepare() noexcept {}

  // Whether the token may come next. Tokens that end a generation may where the text is
  // complete.
  virtual bool allows(int32_t token) = 0;

  // All tokens that may come next, in the order of their numbers.
  virtual std::vector<int32_t> allowed_tokens() = 0;

  // Tokens that come next whatever the model says, in the way that the tokenizer cuts
  // their text; none if there is a choice. There may be more behind them.
  virtual std::vector<int32_t> forced_tokens() = 0;

  // Adds a token that is allowed to the text.
  virtual void accept(int32_t token) = 0;

  // Whether what its copies share failed, so that every copy of it fails: it has to be
  // made anew.
  virtual bool is_spent() const { return false; }

  // Whether the text is as it was asked for, and whether it is and nothing can be added.
  virtual bool is_complete() = 0;
  virtual bool is_at_end() = 0;

  // Adds the first n_bytes of what the tokens add. Whether the text is complete then.
  virtual bool reads(const std::vector<int32_t>& tokens, size_t n_bytes) = 0;

 protected:
  Constraint() = default;
  Constraint(const Constraint&) = default;
};

}  // namespace lh
