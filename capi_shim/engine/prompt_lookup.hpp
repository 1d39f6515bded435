// Guesses how a text goes on.
#pragma once

#include <cstdint>
#include <vector>

namespace lh {

// The n tokens that come next if a text repeats itself: those that came after its last
// six tokens where these stood before, the latest time. Empty if they did not.
// A. Saxena, "Prompt Lookup Decoding" (2023); docs/decisions/0027.
std::vector<int32_t> prompt_lookup(const std::vector<int32_t>& tokens, int32_t n);

}  // namespace lh
