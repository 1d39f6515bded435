// Threads for ggml's computations. With OpenMP ggml uses libgomp's threads; they are
// replaced by those of threads.hpp (docs/decisions/0031).
#pragma once

namespace lh {

// Makes the loaded ggml compute on llamaherd's threads. Returns false, without a change,
// if ggml was compiled without OpenMP or with an OpenMP library other than GCC's, or if
// this is not Linux. Other users of OpenMP in the process are not affected.
bool own_threads();

}  // namespace lh
