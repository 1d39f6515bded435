#include "dry.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lh {
namespace {

// libllama's limit on the length of a breaker in bytes.
constexpr size_t kMaxBytes = 40;
constexpr size_t kMaxTail = 20;  // tokens

constexpr float kLogOfLargestFloat = 88.7228391F;

}  // namespace

// ---- DryBreakers ------------------------------------------------------------------

DryBreakers::DryBreakers(const lh_model& model, const std::vector<std::string>& texts) {
  if (texts.empty()) return;
  for (int32_t token = 0; token < model.n_vocab(); ++token) {
    const std::string word = model.detokenize(&token, 1, false, true);
    for (const std::string& text : texts) {
      if (!text.empty()) add(model, text.substr(0, kMaxBytes), token, word);
    }
  }
}

void DryBreakers::add(const lh_model& model, const std::string& text, int32_t token,
                      const std::string& word) {
  if (word.find(text) != std::string::npos) {
    tails_[token].emplace_back();
    return;
  }
  // If the token text ends with the beginning of the breaker, the rest must follow it.
  for (size_t n = std::min(word.size(), text.size() - 1); n > 0; --n) {
    if (word.compare(word.size() - n, n, text, 0, n) != 0) continue;
    std::vector<int32_t> tail =
        model.tokenize(std::string_view(text).substr(n), false, false);
    if (tail.size() > kMaxTail) tail.resize(kMaxTail);
    tails_[token].push_back(std::move(tail));
  }
}

const DryBreakers::Tails* DryBreakers::tails(int32_t token) const {
  const auto entry = tails_.find(token);
  return entry == tails_.end() ? nullptr : &entry->second;
}

bool DryBreakers::holds(int32_t token) const {
  const Tails* all = tails(token);
  return all != nullptr && std::any_of(all->begin(), all->end(),
                                       [](const auto& tail) { return tail.empty(); });
}

// ---- Dry --------------------------------------------------------------------------

Dry::Dry(std::shared_ptr<const DryBreakers> breakers, const lh_sampling_params& p)
    : breakers_(std::move(breakers)),
      multiplier_(p.dry_multiplier),
      base_(p.dry_base),
      n_allowed_(static_cast<size_t>(p.dry_allowed_length)),
      window_(p.dry_penalty_last_n) {}

bool Dry::is_behind(const std::vector<int32_t>& tail, size_t i) const {
  if (tail.size() > i) return false;
  for (size_t k = 0; k < tail.size(); ++k) {
    if (tail[k] != back(i - k - 1)) return false;
  }
  return true;
}

// Returns the number of tokens since the last breaker, among the last n.
size_t Dry::longest_repetition(size_t n) const {
  for (size_t i = 0; i < n; ++i) {
    const DryBreakers::Tails* tails = breakers_->tails(back(i));
    if (tails == nullptr) continue;
    bool is_breaker = false;
    size_t n_tail = 0;
    for (const std::vector<int32_t>& tail : *tails) {
      if (!is_behind(tail, i)) continue;
      is_breaker = true;
      n_tail = std::max(n_tail, tail.size());
    }
    if (is_breaker) return i - n_tail;
  }
  return n;
}

// Returns, for each k in [1, n), the number of last tokens that equal the tokens before
// the k-th last token, at most `longest`. (Z function, Gusfield 1997, of the reversed
// tokens.)
std::vector<size_t> Dry::repetitions(size_t n, size_t longest) const {
  std::vector<size_t> z(n, 0);
  size_t left = 0;
  size_t right = 0;  // [left, right) equals the beginning
  for (size_t k = 1; k < n; ++k) {
    if (k < right) z[k] = std::min(right - k, z[k - left]);
    while (k + z[k] < n && back(z[k]) == back(k + z[k])) ++z[k];
    if (k + z[k] > right) {
      left = k;
      right = k + z[k];
    }
  }
  for (size_t& count : z) count = std::min(count, longest);
  return z;
}

void Dry::apply(llama_token_data_array& candidates) const {
  const size_t n = window_ < 0 ? tokens_.size()
                               : std::min(tokens_.size(), static_cast<size_t>(window_));
  if (n <= n_allowed_) return;
  const size_t longest = longest_repetition(n);
  if (longest < n_allowed_) return;
  // for each token, the longest repetition that it would continue
  std::unordered_map<int32_t, size_t> repeated;
  const std::vector<size_t> counts = repetitions(n, longest);
  for (size_t k = 1; k < n; ++k) {
    if (counts[k] < n_allowed_) continue;
    size_t& most = repeated[back(k - 1)];
    most = std::max(most, counts[k]);
  }
  const int most =
      base_ > 1.000001F ? static_cast<int>(kLogOfLargestFloat / std::log(base_)) : 0;
  for (size_t i = 0; i < candidates.size; ++i) {
    llama_token_data& candidate = candidates.data[i];
    const auto entry = repeated.find(candidate.id);
    if (entry == repeated.end() || breakers_->holds(candidate.id)) continue;
    int exponent = static_cast<int>(entry->second - n_allowed_);
    if (most > 0) exponent = std::min(exponent, most);
    candidate.logit -= static_cast<float>(multiplier_ * std::pow(base_, exponent));
  }
}

}  // namespace lh
