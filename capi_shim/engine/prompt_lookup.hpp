// Draft tokens from repetitions in a text.
#pragma once

#include <cstdint>
#include <vector>

namespace lh {

// Returns the n tokens that followed the most recent earlier occurrence of the last six
// tokens; no tokens if there is no earlier occurrence. A. Saxena, "Prompt Lookup
// Decoding" (2023); docs/decisions/0027.
std::vector<int32_t> prompt_lookup(const std::vector<int32_t>& tokens, int32_t n);

}  // namespace lh
