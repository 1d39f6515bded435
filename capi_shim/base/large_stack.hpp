// Threads with a stack of a chosen size, for functions of libllama that recurse.
#pragma once

#include <cstddef>
#include <functional>

namespace lh {

// Runs `work` on a new thread whose stack has at least `bytes`, and waits until it ends.
// Memory is used only for the part of the stack that the work reaches. Exceptions of the
// work are thrown here. Returns the number of bytes of the stack that were reached, or 0
// where this is unknown (Windows). Throws Error if the thread cannot be created.
size_t run_with_stack(size_t bytes, const std::function<void()>& work);

}  // namespace lh
