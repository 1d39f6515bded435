// Checks at the start of each function that returns a status: the loaded libllama is the
// one of the build, and this process is no forked child of a process that had loaded a
// model. Such a child is refused: it has the memory of its parent but none of the
// parent's threads, so its first matrix product would wait for these threads forever. R's
// parallel::mclapply and Python's multiprocessing (method "fork") create such children.
#pragma once

namespace lh {

// Refuses later children of this process. Called when a model is loaded. A child of a
// process that loaded only the library may load its own model.
void refuse_children();

// Throws Error (LH_FORKED) in a refused child, or if check_library throws.
void check_process();

// Tests whether this process is a refused child. Such a child must not free objects that
// the parent's threads use.
bool is_refused_child() noexcept;

// Throws Error if the loaded libllama comes from another commit than the headers of the
// build: its structs may differ. The environment variable LLAMAHERD_SKIP_ABI_CHECK=1
// disables the check, as in Python.
void check_library();

// Compares two commits, of which one may be abbreviated; an empty `built` is unknown.
bool is_same_commit(const char* loaded, const char* built) noexcept;

}  // namespace lh
