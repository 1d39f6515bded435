// Comparison of the loaded libllama with the one of the build.
#pragma once

namespace lh {

// Throws Error if the loaded libllama comes from another commit than the headers of the
// build: its structs may differ. The environment variable LLAMAHERD_SKIP_ABI_CHECK=1
// disables the check, as in Python. Called at the start of each function that returns a
// status.
void check_library();

// Compares two commits, of which one may be abbreviated; an empty `built` is unknown.
bool is_same_commit(const char* loaded, const char* built) noexcept;

}  // namespace lh
