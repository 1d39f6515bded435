// Grammar as a recursive transition network (Woods 1970): one automaton per rule, with
// steps for characters, tokens and other rules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gbnf.hpp"

namespace lh {

class Grammar {
 public:
  struct State {
    enum class Kind : uint8_t {
      kEnd,        // end of rule `value`
      kCharacter,  // the character `value`, then `next`
      kClass,      // one character of class `value`, then `next`
      kToken,      // the token `value`, then `next`
      kNotToken,   // any other token, then `next`
      kRule,       // text that rule `value` matches, then `next`
      kSplit       // any of the `next` states in edges(), starting at index `value`
    };
    Kind kind;
    uint32_t value;
    uint32_t next;
  };

  // Throws Error (LH_SAMPLER_ERROR) for an invalid grammar (see parse_gbnf) or for too
  // many states.
  Grammar(std::string_view gbnf, const TokenNames& tokens);

  uint32_t root() const { return root_; }
  const State& state(uint32_t i) const { return states_[i]; }
  const uint32_t* edges(const State& split) const { return edges_.data() + split.value; }
  uint32_t start(uint32_t rule) const { return starts_[rule]; }
  bool may_be_empty(uint32_t rule) const { return may_be_empty_[rule]; }

  // Tests whether a step of `state` accepts the character, or any character from first to
  // last.
  bool takes(const State& state, uint32_t character) const {
    return takes_any(state, character, character);
  }
  bool takes_any(const State& state, uint32_t first, uint32_t last) const;

 private:
  uint32_t add(State::Kind kind, uint32_t value, uint32_t next);
  uint32_t add_split(const std::vector<uint32_t>& targets);
  uint32_t add_tree(const GbnfNode& tree, uint32_t next);
  uint32_t add_repeat(const GbnfNode& repeat, uint32_t next);
  void find_empty_rules();

  std::vector<State> states_;
  std::vector<uint32_t> edges_;
  std::vector<CharacterClass> classes_;
  std::vector<uint32_t> starts_;
  std::vector<bool> may_be_empty_;
  uint32_t root_ = 0;
};

}  // namespace lh
