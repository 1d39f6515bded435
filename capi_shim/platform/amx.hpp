// Whether the loaded ggml uses AMX, the matrix instructions of newer Intel processors,
// and whether it survives that.
//
// GCC older than the cure of its bug 114098 (Debian 12's, for one) takes what ggml writes
// into a tile configuration for unused and leaves it out, and the first product of
// matrices ends the process.
#pragma once

#include <cstdint>
#include <functional>

#include "llamaherd.h"

namespace lh {

// ggml computes so many rows of a batch together then: fewer cost as much, from a block
// on (docs/decisions/0025).
constexpr int32_t kAmxRows = LH_AMX_ROWS;

// Whether ggml multiplies by AMX.
bool has_amx();

// Throws LH_MODEL_ERROR, with the cure, if a product of matrices would end this process.
// Tries one in a child process, once; where ggml does without AMX there is nothing to
// try.
void check_amx();

// Whether a child of this process comes through `body`. True also if no child could be
// made or it took too long: then nothing is known. `body` must not start threads.
bool child_survives(const std::function<void()>& body);

}  // namespace lh
