// Follows one text through a grammar, token after token, and knows which tokens may come.
//
// Earley's algorithm (1970) with Aycock and Horspool's way for empty rules (2002): all
// ways to read the text are followed side by side and merged where they meet, so that
// rules that start with themselves, and texts that can be read in many ways, cost little.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "constraint.hpp"
#include "grammar.hpp"
#include "model.hpp"
#include "utf8.hpp"

namespace lh {

class GrammarMatcher final : public Constraint {
 public:
  // `model` must live longer.
  GrammarMatcher(std::shared_ptr<const Grammar> grammar, const lh_model& model);

  std::unique_ptr<Constraint> copy() const override {
    return std::make_unique<GrammarMatcher>(*this);
  }

  // This and the others throw Error (LH_SAMPLER_ERROR) if the grammar has too many ways
  // to read the text.
  bool allows(int32_t token) override;
  std::vector<int32_t> allowed_tokens() override;
  std::vector<int32_t> forced_tokens() override;
  void accept(int32_t token) override;
  bool is_complete() override {
    return !partial_.is_inside() && places_.back().is_complete;
  }
  bool is_at_end() override {
    return is_complete() && places_.back().first_step == steps_.size();
  }
  bool reads(const std::vector<int32_t>& tokens, size_t n_bytes) override;

 private:
  // A state of a rule, and the place in the text where the rule started.
  struct Item {
    uint32_t state;
    uint32_t origin;
  };
  // Between two characters of the text.
  struct Place {
    size_t first_step;  // of the items that wait for a character or a token here
    size_t first_call;  // of those that wait for a rule, in the order of the rules
    bool is_complete;   // the text up to here matches the grammar
  };
  struct Mark {
    size_t n_places;
    Utf8Decoder partial;
  };

  // The items of the last place, to find those that are already there.
  class Seen {
   public:
    Seen() : slots_(64) {}
    void clear();
    bool insert(Item item);  // false: it was there
    size_t size() const { return n_items_; }

   private:
    struct Slot {
      Item item;
      uint32_t generation;
    };
    Slot& slot_of(Item item);
    std::vector<Slot> slots_;
    size_t n_items_ = 0;
    uint32_t generation_ = 1;
  };

  uint32_t rule_of(Item call) const { return grammar_->state(call.state).value; }
  void start_place();
  void close();
  void complete(uint32_t rule, uint32_t origin);
  bool add_byte(uint8_t byte);
  bool add_bytes(std::string_view bytes);
  bool add_character(uint32_t character);
  bool may_become_character();
  std::vector<Item> after_token(int32_t token) const;
  bool forced_character(uint32_t& character);
  bool continues_piece(std::string_view begin);
  std::vector<int32_t> cut_forced(const std::string& text);
  void allow_by_number(std::vector<bool>& allowed) const;
  Mark mark() const { return {places_.size(), partial_}; }
  void go_back(const Mark& mark);
  void count_work();

  std::shared_ptr<const Grammar> grammar_;
  const lh_model* model_;
  std::vector<Item> steps_;  // of all places, one place after the other
  std::vector<Item> calls_;
  std::vector<Place> places_;
  Utf8Decoder partial_;        // the first bytes of a character
  std::vector<Item> pending_;  // for the last place
  Seen seen_;
  int64_t n_work_ = 0;  // items looked at for the next token
};

}  // namespace lh
