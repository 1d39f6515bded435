// Threads for ggml's computations. With OpenMP ggml uses libgomp's threads; the threads
// of threads.hpp replace them (docs/decisions/0031).
#pragma once

namespace lh {

// Makes the loaded ggml compute on llamaherd's threads. Returns false, without a change,
// if ggml was compiled without OpenMP or with an OpenMP library other than GCC's, or if
// this is neither Linux nor Windows. Other users of OpenMP in the process are not
// affected.
bool own_threads();

}  // namespace lh
