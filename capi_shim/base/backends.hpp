// Loading of ggml's backends, the libraries that compute. Most builds link them to
// libggml. Builds with GGML_BACKEND_DL have them as separate files, and those with
// GGML_CPU_ALL_VARIANTS one file for each level of processors, of which ggml loads the
// best that this processor supports.
#pragma once

#include <string>

namespace lh {

// Returns the folder of the loaded libggml, in UTF-8; "" if it is unknown.
std::string ggml_folder();

// Loads the backends in the folder of libggml, if none is linked or loaded yet. ggml
// itself searches only the folder of the program and the current folder. Repeated calls
// have no effect.
void load_backends();

}  // namespace lh
