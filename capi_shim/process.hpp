// What concerns the process as a whole: forks, and the threads that compute.
//
// A child that was forked from a process with a model in use is refused.
// Such a child has the memory of its parent but none of its threads: the first product of
// matrices would wait for OpenMP's for ever. R's parallel::mclapply and Python's
// multiprocessing (by its "fork" method) make such children.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace lh {

// From now on children of this process are refused. Called when a model is loaded; a
// child of a process that only loaded the library may load a model of its own.
void refuse_children();

// Throws LH_FORKED in a child that is refused.
void check_process();

// Whether this is such a child; it must not free what belongs to the parent's threads.
bool is_refused_child() noexcept;

// Ends the OpenMP threads that wait for work of this thread, if there are any. For a
// thread that has computed (a model in AMX's layout, a llama_cpp.Llama) and now leaves it
// to another: with the threads of both there are more than processors, and then libgomp
// lets those that wait sleep at once.
void release_threads();

// Calls run(0) to run(n - 1), on the threads that ggml computes with if these are
// OpenMP's, one after another if not. n_threads: how many ggml has computed with on this
// thread; any other number would end some of them. `run` must not throw.
void for_each(size_t n, int32_t n_threads, const std::function<void(size_t)>& run);

}  // namespace lh
