// Detection of forked child processes. A child is refused if the parent had loaded a
// model: it has the memory of its parent but none of the parent's threads, so its first
// matrix product would wait for these threads forever. R's parallel::mclapply and
// Python's multiprocessing (method "fork") create such children.
#pragma once

namespace lh {

// Refuses later children of this process. Called when a model is loaded. A child of a
// process that loaded only the library may load its own model.
void refuse_children();

// Throws Error (LH_FORKED) in a refused child.
void check_process();

// Tests whether this process is a refused child. Such a child must not free objects that
// the parent's threads use.
bool is_refused_child() noexcept;

}  // namespace lh
