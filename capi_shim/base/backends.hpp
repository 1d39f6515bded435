// Loading of ggml's backends, the libraries that compute. Most builds link them to
// libggml. In builds with GGML_BACKEND_DL, backends are separate files. Builds with
// GGML_CPU_ALL_VARIANTS have one file for each level of processors; ggml loads the best
// one that this processor supports.
#pragma once

#include <string>

namespace lh {

// Returns the folder of the loaded libggml, in UTF-8; "" if it is unknown.
std::string ggml_folder();

// Loads the backends in the folder of libggml, if no backend is linked or loaded yet.
// ggml itself would search only the folder of the program and the current folder.
// Repeated calls have no effect.
void load_backends();

}  // namespace lh
