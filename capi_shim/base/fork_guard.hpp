// Detection of forked children, which are refused if the parent had loaded a model. Such
// a child has the memory of its parent but none of its threads, so its first matrix
// product would wait for them forever. R's parallel::mclapply and Python's
// multiprocessing (method "fork") create such children.
#pragma once

namespace lh {

// Refuses later children of this process. Called when a model is loaded; a child of a
// process that only loaded the library may load its own model.
void refuse_children();

// Throws LH_FORKED in a refused child.
void check_process();

// Tests whether this is a refused child, which must not free objects of the parent's
// threads.
bool is_refused_child() noexcept;

}  // namespace lh
