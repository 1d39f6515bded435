// Forks: a child that was forked from a process with a model in use is refused.
// Such a child has the memory of its parent but none of its threads: the first product of
// matrices would wait for them for ever. R's parallel::mclapply and Python's
// multiprocessing (by its "fork" method) make such children.
#pragma once

namespace lh {

// From now on children of this process are refused. Called when a model is loaded; a
// child of a process that only loaded the library may load a model of its own.
void refuse_children();

// Throws LH_FORKED in a child that is refused.
void check_process();

// Whether this is such a child; it must not free what belongs to the parent's threads.
bool is_refused_child() noexcept;

}  // namespace lh
