// Lengths that the parts of a batch are filled up to: docs/decisions/0026.
#pragma once

#include <cstdint>
#include <vector>

namespace lh {

// A part of a batch: its tokens, the position of the first, which is how many cells each
// of them sees, and to how many tokens it may be filled up.
struct Length {
  int32_t n_tokens;
  int32_t position;
  int32_t limit;
};

// The length for each part with which all are computed soonest. libllama computes parts
// together as far as the shortest goes, then what is left of the others, and so on: each
// length is a computation, with a cost of its own, and `amx` (see has_amx) makes rows
// cost as much as a whole block of them. `lengths` rise; `room` is for fillers of all
// parts together.
std::vector<int32_t> level(const std::vector<Length>& lengths, int32_t room, bool amx);

}  // namespace lh
