// Matcher of one text against a grammar, token by token, with the set of allowed next
// tokens. Uses Earley's algorithm (1970) with Aycock and Horspool's treatment of empty
// rules (2002): all parses of the text advance in parallel and are merged where they
// meet. Left-recursive rules and ambiguous texts therefore cost little.
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
  // The model must outlive the object.
  GrammarMatcher(std::shared_ptr<const Grammar> grammar, const lh_model& model);

  std::unique_ptr<Constraint> copy() const override {
    return std::make_unique<GrammarMatcher>(*this);
  }

  // allows() and the functions below throw Error (LH_SAMPLER_ERROR) if the text has too
  // many parses.
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
  bool completes(std::string_view text) override {
    return add_bytes(text) && is_complete();
  }

  // Returns the number of items that the last query examined.
  int64_t n_work() const { return n_work_; }

 private:
  // State of a rule, and the position in the text where the rule started.
  struct Item {
    uint32_t state;
    uint32_t origin;
  };
  // Position between two characters of the text.
  struct Place {
    size_t first_step;  // start of the items that wait for a character or a token here
    size_t first_call;  // start of the items that wait for a rule, sorted by rule
    bool is_complete;   // whether the text up to here matches the grammar
  };
  struct Mark {
    size_t n_places;
    Utf8Decoder partial;
  };

  // Set of the items at the last position, used to find duplicates.
  class Seen {
   public:
    Seen() : slots_(64) {}
    void clear();
    bool insert(Item item);  // false: already present
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
  std::vector<Item> steps_;  // items of all positions, one position after the other
  std::vector<Item> calls_;
  std::vector<Place> places_;
  Utf8Decoder partial_;        // first bytes of an incomplete character
  std::vector<Item> pending_;  // items to expand at the last position
  Seen seen_;
  int64_t n_work_ = 0;
};

}  // namespace lh
