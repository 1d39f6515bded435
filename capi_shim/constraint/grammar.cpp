#include "grammar.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "guard.hpp"

namespace lh {
namespace {

constexpr size_t kMaxStates = 1'000'000;  // 12 bytes each

using Kind = Grammar::State::Kind;

}  // namespace

Grammar::Grammar(std::string_view gbnf, const TokenNames& tokens) {
  Gbnf grammar = parse_gbnf(gbnf, tokens);
  classes_ = std::move(grammar.classes);
  root_ = grammar.root;
  for (uint32_t rule = 0; rule < grammar.rules.size(); ++rule) {
    starts_.push_back(add_tree(grammar.rules[rule], add(Kind::kEnd, rule, 0)));
  }
  find_empty_rules();
}

uint32_t Grammar::add(Kind kind, uint32_t value, uint32_t next) {
  if (states_.size() + edges_.size() >= kMaxStates) {
    refuse_grammar("it has more than " + std::to_string(kMaxStates) +
                   " states; fewer or smaller repetitions help");
  }
  states_.push_back({kind, value, next});
  return static_cast<uint32_t>(states_.size() - 1);
}

uint32_t Grammar::add_split(const std::vector<uint32_t>& targets) {
  const auto first = static_cast<uint32_t>(edges_.size());
  edges_.insert(edges_.end(), targets.begin(), targets.end());
  return add(Kind::kSplit, first, static_cast<uint32_t>(targets.size()));
}

// Adds states that match the tree and continue at `next`. Returns the first state. The
// parser left out empty parts: without states, their repetitions would have no limit.
uint32_t Grammar::add_tree(const GbnfNode& tree, uint32_t next) {
  switch (tree.kind) {
    case GbnfNode::Kind::kLiteral:
      for (auto c = tree.text.rbegin(); c != tree.text.rend(); ++c) {
        next = add(Kind::kCharacter, *c, next);
      }
      return next;
    case GbnfNode::Kind::kClass:
      return add(Kind::kClass, tree.value, next);
    case GbnfNode::Kind::kToken:
      return add(Kind::kToken, tree.value, next);
    case GbnfNode::Kind::kNotToken:
      return add(Kind::kNotToken, tree.value, next);
    case GbnfNode::Kind::kRule:
      return add(Kind::kRule, tree.value, next);
    case GbnfNode::Kind::kSequence:
      for (auto part = tree.children.rbegin(); part != tree.children.rend(); ++part) {
        next = add_tree(*part, next);
      }
      return next;
    case GbnfNode::Kind::kChoice: {
      std::vector<uint32_t> targets;
      targets.reserve(tree.children.size());
      for (const GbnfNode& way : tree.children) targets.push_back(add_tree(way, next));
      return add_split(targets);
    }
    case GbnfNode::Kind::kRepeat:
      return add_repeat(tree, next);
  }
  throw Error(LH_INTERNAL, "a node of a grammar is of no kind");
}

uint32_t Grammar::add_repeat(const GbnfNode& repeat, uint32_t next) {
  const GbnfNode& child = repeat.children.front();
  uint32_t start = next;
  if (repeat.most == GbnfNode::kUnbounded) {
    const uint32_t loop = add_split({next, next});
    const uint32_t again = add_tree(child, loop);
    edges_[states_[loop].value] = again;
    start = loop;
  } else {
    for (uint32_t n = repeat.least; n < repeat.most; ++n) {
      start = add_split({add_tree(child, start), next});
    }
  }
  for (uint32_t n = 0; n < repeat.least; ++n) start = add_tree(child, start);
  return start;
}

// Starts at the ends of all rules and goes backwards over steps that need no character.
void Grammar::find_empty_rules() {
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<std::vector<uint32_t>> before(states_.size());
  std::vector<uint32_t> rule_started(states_.size(), kNone);
  std::vector<uint32_t> pending;
  for (uint32_t i = 0; i < states_.size(); ++i) {
    const State& s = states_[i];
    if (s.kind == Kind::kEnd) pending.push_back(i);
    if (s.kind == Kind::kRule) before[s.next].push_back(i);
    for (uint32_t k = 0; s.kind == Kind::kSplit && k < s.next; ++k) {
      before[edges(s)[k]].push_back(i);
    }
  }
  for (uint32_t rule = 0; rule < starts_.size(); ++rule) {
    rule_started[starts_[rule]] = rule;
  }
  may_be_empty_.assign(starts_.size(), false);
  std::vector<bool> reached(states_.size(), false);
  // for each rule, the number of rules that must be empty first
  std::vector<std::vector<uint32_t>> waiting(starts_.size());
  while (!pending.empty()) {
    const uint32_t i = pending.back();
    pending.pop_back();
    if (reached[i]) continue;
    reached[i] = true;
    for (const uint32_t previous : before[i]) {
      const State& s = states_[previous];
      const bool waits = s.kind == Kind::kRule && !may_be_empty_[s.value];
      (waits ? waiting[s.value] : pending).push_back(previous);
    }
    const uint32_t rule = rule_started[i];
    if (rule == kNone) continue;
    may_be_empty_[rule] = true;
    pending.insert(pending.end(), waiting[rule].begin(), waiting[rule].end());
  }
}

bool Grammar::takes_any(const State& state, uint32_t first, uint32_t last) const {
  if (state.kind == Kind::kCharacter) return first <= state.value && state.value <= last;
  if (state.kind != Kind::kClass) return false;
  const CharacterClass& ranges = classes_[state.value];
  const auto range =
      std::lower_bound(ranges.begin(), ranges.end(), first,
                       [](const CharacterRange& r, uint32_t c) { return r.last < c; });
  return range != ranges.end() && range->first <= last;
}

}  // namespace lh
