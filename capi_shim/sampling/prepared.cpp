#include "prepared.hpp"

#include <algorithm>
#include <utility>

#include "grammar_matcher.hpp"
#include "guard.hpp"
#include "llguidance.hpp"

namespace lh {
namespace {

constexpr size_t kMostKept = 32;
// maximum total size of the texts; one entry is always kept
constexpr size_t kMostBytes = size_t{4} << 20U;

std::unique_ptr<Constraint> start_gbnf(const lh_model& model, const char* text) {
  const auto token_of_text = [&](std::string_view token) {
    const auto tokens = model.tokenize(token, false, true);
    return tokens.size() == 1 ? tokens[0] : -1;
  };
  const TokenNames names{token_of_text, model.n_vocab()};
  return std::make_unique<GrammarMatcher>(std::make_shared<Grammar>(text, names), model);
}

std::unique_ptr<Constraint> start(const lh_model& model, int32_t kind, const char* text) {
  return kind == LH_GRAMMAR_GBNF ? start_gbnf(model, text)
                                 : start_llguidance(model, kind, text);
}

// Finds forced text at the start, which can be long, only once for all copies. If the
// text is too long, accepting its first token throws the error.
std::shared_ptr<const Constraint> compile(const lh_model& model, int32_t kind,
                                          const char* text) {
  std::unique_ptr<Constraint> constraint = start(model, kind, text);
  const std::vector<int32_t> forced = constraint->forced_tokens();
  if (!forced.empty()) constraint->copy()->accept(forced.front());
  return constraint;
}

}  // namespace

PreparedConstraints& PreparedConstraints::of(const lh_model& model) {
  const auto make = [&] { return std::make_shared<PreparedConstraints>(model); };
  const void* kept = model.kept(lh_model::Kept::kConstraints, make);
  return *static_cast<PreparedConstraints*>(const_cast<void*>(kept));
}

void PreparedConstraints::keep(Entry entry) {
  std::list<Entry> dropped;  // freed after the lock is released
  const std::scoped_lock lock(mutex_);
  entries_.push_front(std::move(entry));
  size_t n_bytes = 0;
  size_t n = 0;
  for (auto older = entries_.begin(); older != entries_.end(); ++older, ++n) {
    n_bytes += older->text.size();
    if (n > 0 && (n >= kMostKept || n_bytes > kMostBytes)) {
      dropped.splice(dropped.begin(), entries_, older, entries_.end());
      return;
    }
  }
}

std::shared_ptr<const Constraint> PreparedConstraints::constraint(
    const lh_sampling_params& params) {
  const int32_t kind = params.grammar_kind;
  const std::string_view text = params.grammar;
  {
    const std::scoped_lock lock(mutex_);
    entries_.remove_if([](const Entry& e) { return e.constraint->is_spent(); });
    const auto entry =
        std::find_if(entries_.begin(), entries_.end(),
                     [&](const Entry& e) { return e.kind == kind && e.text == text; });
    if (entry != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, entry);
      return entry->constraint;
    }
  }
  // The constraint is compiled without the lock, so that other threads can continue.
  std::shared_ptr<const Constraint> compiled = compile(*model_, kind, params.grammar);
  keep({kind, std::string(text), compiled});
  return compiled;
}

}  // namespace lh
