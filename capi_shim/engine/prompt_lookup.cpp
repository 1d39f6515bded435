#include "prompt_lookup.hpp"

#include <algorithm>

namespace lh {

std::vector<int32_t> prompt_lookup(const std::vector<int32_t>& tokens, int32_t n) {
  constexpr size_t kMatch = 6;
  if (tokens.size() <= kMatch) return {};
  const auto found = std::search(tokens.rbegin() + 1, tokens.rend(), tokens.rbegin(),
                                 tokens.rbegin() + kMatch);
  if (found == tokens.rend()) return {};
  std::vector<int32_t> draft;
  auto at = static_cast<size_t>(found.base() - tokens.begin());
  for (; static_cast<int32_t>(draft.size()) < n; ++at) {
    draft.push_back(at < tokens.size() ? tokens[at] : draft[at - tokens.size()]);
  }
  return draft;
}

}  // namespace lh
