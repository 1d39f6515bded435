// Detection of AMX, the matrix instructions of newer Intel processors, in the loaded
// ggml, and a test whether it works. Versions of GCC without the fix of its bug 114098
// (e.g. Debian 12's) remove ggml's writes to a tile configuration as unused. The first
// matrix product then ends the process.
#pragma once

#include <cstdint>
#include <functional>

#include "llamaherd.h"

namespace lh {

// Number of rows that ggml computes together with AMX: from one block on, an incomplete
// block costs as much as a full one (docs/decisions/0018).
constexpr int32_t kAmxRows = LH_AMX_ROWS;

// Tests whether ggml multiplies with AMX.
bool has_amx();

// Throws LH_MODEL_ERROR, with a fix, if a matrix product would end this process. Tests a
// product in a child process, once. Without AMX in ggml no test is needed.
void check_amx();

// Tests whether `body` completes in a child process. Also true if no child can be created
// or it takes too long, because the result is unknown then. `body` must not start
// threads.
bool child_survives(const std::function<void()>& body);

}  // namespace lh
