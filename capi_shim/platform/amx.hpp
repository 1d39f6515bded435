// Detection of AMX, the matrix instructions of newer Intel processors, in the loaded
// ggml, and a test whether it works. Versions of GCC without the fix of its bug 114098
// (e.g. Debian 12's) remove ggml's writes to a tile configuration as unused. The first
// matrix product then ends the process.
#pragma once

#include <cstdint>
#include <functional>

#include "llamaherd.h"

namespace lh {

// Number of rows (a block) that ggml computes together with AMX. After the first block,
// an incomplete block costs as much as a full block (docs/decisions/0018).
constexpr int32_t kAmxRows = LH_AMX_ROWS;

// Tests whether ggml multiplies with AMX.
bool has_amx();

// Tests whether ggml computes a model with rows of `n_embd` numbers correctly. With AMX,
// products of rows of 32 numbers, a single block, read memory that nobody wrote.
bool amx_computes(int32_t n_embd);

// Throws Error (LH_MODEL_ERROR), with advice, if a matrix product would end this process.
// Tests a product once in a child process. If ggml does not use AMX, no test is needed.
void check_amx();

// Tests whether `body` completes in a child process. Also returns true if no child can be
// created or the child takes too long, because the result is then unknown. `body` must
// not start threads.
bool child_survives(const std::function<void()>& body);

}  // namespace lh
