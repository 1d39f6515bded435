// The threads that ggml computes on: with OpenMP these are libgomp's, in place of which
// it gets those of threads.hpp (docs/decisions/0031).
#pragma once

namespace lh {

// Has the loaded ggml compute on our threads from now on. False if it does not: it was
// compiled without OpenMP, or by a compiler with another OpenMP library, or this is not
// Linux. Then it computes as it always has. Other users of OpenMP in this process are not
// touched.
bool own_threads();

}  // namespace lh
