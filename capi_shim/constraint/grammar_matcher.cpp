#include "grammar_matcher.hpp"

#include <algorithm>
#include <utility>

#include "guard.hpp"
#include "token_pieces.hpp"

namespace lh {
namespace {

using Kind = Grammar::State::Kind;

constexpr size_t kMaxItems = 2'000'000;    // 8 bytes each
constexpr int64_t kMaxWork = 100'000'000;  // maximum number of items per token: a few
                                           // tenths of a second

[[noreturn]] void refuse() {
  throw Error(LH_SAMPLER_ERROR, "grammar has too many ways to read the text so far");
}

}  // namespace

// ---- Seen -------------------------------------------------------------------------

void GrammarMatcher::Seen::clear() {
  n_items_ = 0;
  if (++generation_ == 0) {
    std::fill(slots_.begin(), slots_.end(), Slot{});
    generation_ = 1;
  }
}

// Returns the slot that has the item, or the free slot for the item.
GrammarMatcher::Seen::Slot& GrammarMatcher::Seen::slot_of(Item item) {
  const size_t mask = slots_.size() - 1;
  const uint64_t key = (uint64_t{item.origin} << 32U | item.state) * 0x9E3779B97F4A7C15U;
  for (size_t i = key >> 32U;; ++i) {
    Slot& slot = slots_[i & mask];
    if (slot.generation != generation_) return slot;
    if (slot.item.state == item.state && slot.item.origin == item.origin) return slot;
  }
}

bool GrammarMatcher::Seen::insert(Item item) {
  Slot& slot = slot_of(item);
  if (slot.generation == generation_) return false;
  slot = {item, generation_};
  if (2 * ++n_items_ <= slots_.size()) return true;
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& s : old) {
    if (s.generation == generation_) slot_of(s.item) = s;
  }
  return true;
}

// ---- GrammarMatcher ---------------------------------------------------------------

GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar> grammar,
                               const lh_model& model)
    : grammar_(std::move(grammar)), model_(&model) {
  start_place();
  pending_.push_back({grammar_->start(grammar_->root()), 0});
  close();
}

void GrammarMatcher::count_work() {
  if (++n_work_ > kMaxWork) refuse();
}

void GrammarMatcher::start_place() {
  places_.push_back({steps_.size(), calls_.size(), false});
  seen_.clear();
}

// Expands the items in pending_. Afterwards, all items at the last position that wait for
// a character, a token or a rule are known.
void GrammarMatcher::close() {
  const auto here = static_cast<uint32_t>(places_.size() - 1);
  while (!pending_.empty()) {
    const Item item = pending_.back();
    pending_.pop_back();
    if (!seen_.insert(item)) continue;
    if (seen_.size() + pending_.size() > kMaxItems) refuse();
    count_work();
    const Grammar::State& state = grammar_->state(item.state);
    if (state.kind == Kind::kSplit) {
      const uint32_t* edges = grammar_->edges(state);
      for (uint32_t k = 0; k < state.next; ++k)
        pending_.push_back({edges[k], item.origin});
      continue;
    }
    if (state.kind == Kind::kEnd) {
      complete(state.value, item.origin);
      continue;
    }
    if (steps_.size() + calls_.size() >= kMaxItems) refuse();
    if (state.kind != Kind::kRule) {
      steps_.push_back(item);
      continue;
    }
    calls_.push_back(item);
    pending_.push_back({grammar_->start(state.value), here});
    if (grammar_->may_be_empty(state.value))
      pending_.push_back({state.next, item.origin});
  }
  std::sort(calls_.begin() + static_cast<std::ptrdiff_t>(places_.back().first_call),
            calls_.end(), [&](Item a, Item b) { return rule_of(a) < rule_of(b); });
}

// Continues the items that wait for the rule at the position where the rule started.
void GrammarMatcher::complete(uint32_t rule, uint32_t origin) {
  Place& here = places_.back();
  if (rule == grammar_->root() && origin == 0) here.is_complete = true;
  // Items that wait at this position have already continued without the rule, because it
  // may be empty.
  if (origin == places_.size() - 1) return;
  const Item* begin = calls_.data() + places_[origin].first_call;
  const Item* end = calls_.data() + places_[origin + 1].first_call;
  const Item* call = std::lower_bound(
      begin, end, rule, [&](Item a, uint32_t value) { return rule_of(a) < value; });
  for (; call != end && rule_of(*call) == rule; ++call) {
    count_work();
    pending_.push_back({grammar_->state(call->state).next, call->origin});
  }
}

bool GrammarMatcher::add_character(uint32_t character) {
  const size_t first = places_.back().first_step;
  const size_t end = steps_.size();
  start_place();
  for (size_t i = first; i < end; ++i) {
    count_work();
    const Grammar::State& state = grammar_->state(steps_[i].state);
    if (grammar_->takes(state, character)) {
      pending_.push_back({state.next, steps_[i].origin});
    }
  }
  if (pending_.empty()) return false;
  close();
  return true;
}

// Tests whether an allowed character starts with these bytes.
bool GrammarMatcher::may_become_character() {
  for (size_t i = places_.back().first_step; i < steps_.size(); ++i) {
    count_work();
    const Grammar::State& state = grammar_->state(steps_[i].state);
    if (grammar_->takes_any(state, partial_.lowest(), partial_.highest())) return true;
  }
  return false;
}

bool GrammarMatcher::add_byte(uint8_t byte) {
  switch (partial_.add(byte)) {
    case Utf8Decoder::Found::kMore:
      return may_become_character();
    case Utf8Decoder::Found::kCharacter:
      return add_character(partial_.value());
    case Utf8Decoder::Found::kIllFormed:
      break;
  }
  return false;
}

bool GrammarMatcher::add_bytes(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [&](char c) { return add_byte(static_cast<uint8_t>(c)); });
}

void GrammarMatcher::go_back(const Mark& mark) {
  if (mark.n_places < places_.size()) {
    steps_.resize(places_[mark.n_places].first_step);
    calls_.resize(places_[mark.n_places].first_call);
    places_.resize(mark.n_places);
  }
  partial_ = mark.partial;
  pending_.clear();
}

// Returns the items after the steps that take a token by its id.
std::vector<GrammarMatcher::Item> GrammarMatcher::after_token(int32_t token) const {
  std::vector<Item> after;
  if (partial_.is_inside()) return after;
  for (size_t i = places_.back().first_step; i < steps_.size(); ++i) {
    const Grammar::State& state = grammar_->state(steps_[i].state);
    const bool is_it = state.value == static_cast<uint32_t>(token);
    if ((state.kind == Kind::kToken && is_it) ||
        (state.kind == Kind::kNotToken && !is_it)) {
      after.push_back({state.next, steps_[i].origin});
    }
  }
  return after;
}

bool GrammarMatcher::allows(int32_t token) {
  if (model_->is_eog(token)) return is_complete();
  if (!after_token(token).empty()) return true;
  const std::string piece = model_->piece(token);
  if (piece.empty()) return false;
  n_work_ = 0;
  const Mark before = mark();
  const bool allowed = add_bytes(piece);
  go_back(before);
  return allowed;
}

void GrammarMatcher::accept(int32_t token) {
  if (model_->is_eog(token)) return;
  n_work_ = 0;
  std::vector<Item> after = after_token(token);
  const std::string piece = model_->piece(token);
  const Mark before = mark();
  const bool is_read = !piece.empty() && add_bytes(piece);
  if (after.empty()) {
    if (!is_read) throw Error(LH_INTERNAL, "a token that the grammar does not allow");
    return;
  }
  // If the token can also be read as characters, both parses end at the same position.
  if (!is_read || partial_.is_inside()) {
    go_back(before);
    start_place();
  }
  pending_ = std::move(after);
  close();
}

// Tests whether all steps accept the same character and the text cannot end here.
bool GrammarMatcher::forced_character(uint32_t& character) {
  const size_t first = places_.back().first_step;
  if (is_complete() || first == steps_.size()) return false;
  character = grammar_->state(steps_[first].state).value;
  return std::all_of(steps_.begin() + static_cast<std::ptrdiff_t>(first), steps_.end(),
                     [&](Item item) {
                       const Grammar::State& state = grammar_->state(item.state);
                       return state.kind == Kind::kCharacter && state.value == character;
                     });
}

// Tests whether the text can continue within a longer piece that starts with `begin`. The
// bytes of `begin` were already read.
bool GrammarMatcher::continues_piece(std::string_view begin) {
  const TokenPieces& pieces = model_->pieces();
  auto entry = std::lower_bound(pieces.entries().begin(), pieces.entries().end(), begin,
                                [&](const TokenPieces::Entry& e, std::string_view text) {
                                  return pieces.bytes(e) < text;
                                });
  std::vector<Mark> marks = {mark()};  // marks[n]: state n bytes after `begin`
  bool is_continued = false;
  for (bool is_first = true; entry != pieces.entries().end(); ++entry) {
    const std::string_view bytes = pieces.bytes(*entry);
    if (bytes.substr(0, begin.size()) != begin) break;
    const size_t shared = is_first ? begin.size() : size_t{entry->shared};
    is_first = false;
    size_t n_read = std::max(shared, begin.size());
    if (n_read - begin.size() >= marks.size()) continue;
    marks.resize(n_read - begin.size() + 1);
    go_back(marks.back());
    while (n_read < bytes.size() && add_byte(static_cast<uint8_t>(bytes[n_read]))) {
      marks.push_back(mark());
      ++n_read;
    }
    is_continued = n_read == bytes.size() && n_read > begin.size();
    if (is_continued) break;
  }
  go_back(marks.front());
  return is_continued;
}

// Returns the tokens of a forced text that was already read. Omits the last tokens if the
// characters that follow may change them.
std::vector<int32_t> GrammarMatcher::cut_forced(const std::string& text) {
  std::vector<int32_t> tokens = model_->tokenize_inside(text);
  std::vector<size_t> starts;
  size_t end = 0;
  for (const int32_t token : tokens) {
    const std::string piece = model_->piece(token);
    if (piece.empty() || text.compare(end, piece.size(), piece) != 0) break;
    starts.push_back(end);
    end += piece.size();
  }
  size_t n = starts.size();
  const size_t longest = model_->pieces().longest();
  for (size_t i = end == text.size() ? n : 0; i-- > 0;) {
    if (text.size() - starts[i] >= longest) break;
    if (continues_piece(std::string_view(text).substr(starts[i]))) n = i;
  }
  tokens.resize(n);
  return tokens;
}

std::vector<int32_t> GrammarMatcher::forced_tokens() {
  constexpr size_t kMostCharacters = 256;  // the rest is returned by the next call
  if (partial_.is_inside()) return {};
  n_work_ = 0;
  const Mark before = mark();
  std::string text;
  uint32_t character = 0;
  for (size_t n = 0; n < kMostCharacters && forced_character(character); ++n) {
    if (!add_character(character)) break;
    append_utf8(text, character);
  }
  std::vector<int32_t> tokens;
  if (!text.empty()) tokens = cut_forced(text);
  go_back(before);
  return tokens;
}

void GrammarMatcher::allow_by_number(std::vector<bool>& allowed) const {
  if (partial_.is_inside()) return;
  std::vector<uint32_t> others;  // excluded tokens
  for (size_t i = places_.back().first_step; i < steps_.size(); ++i) {
    const Grammar::State& state = grammar_->state(steps_[i].state);
    if (state.kind == Kind::kToken) allowed[state.value] = true;
    if (state.kind == Kind::kNotToken) others.push_back(state.value);
  }
  if (others.empty()) return;
  const bool is_one = std::all_of(others.begin(), others.end(),
                                  [&](uint32_t token) { return token == others[0]; });
  const bool last = !is_one || allowed[others[0]];
  std::fill(allowed.begin(), allowed.end(), true);
  allowed[others[0]] = last;
}

std::vector<int32_t> GrammarMatcher::allowed_tokens() {
  n_work_ = 0;
  std::vector<bool> allowed(static_cast<size_t>(model_->n_vocab()));
  allow_by_number(allowed);
  const TokenPieces& pieces = model_->pieces();
  // marks[n]: state after the first n bytes of the entry, as far as these bytes can be
  // read.
  std::vector<Mark> marks = {mark()};
  for (const TokenPieces::Entry& entry : pieces.entries()) {
    // The entry starts with the same bytes as the previous entry, which could not be
    // read.
    if (entry.shared >= marks.size()) continue;
    marks.resize(entry.shared + 1);
    go_back(marks.back());
    const std::string_view bytes = pieces.bytes(entry);
    size_t n_read = entry.shared;
    while (n_read < bytes.size() && add_byte(static_cast<uint8_t>(bytes[n_read]))) {
      marks.push_back(mark());
      ++n_read;
    }
    if (n_read == bytes.size()) allowed[static_cast<size_t>(entry.token)] = true;
  }
  go_back(marks.front());
  for (const int32_t token : model_->eog_tokens()) {
    allowed[static_cast<size_t>(token)] = is_complete();
  }
  std::vector<int32_t> tokens;
  for (size_t token = 0; token < allowed.size(); ++token) {
    if (allowed[token]) tokens.push_back(static_cast<int32_t>(token));
  }
  return tokens;
}

}  // namespace lh
