// ggml's backends, the parts that compute. Most builds link them to libggml. Builds with
// GGML_BACKEND_DL have them as files, and some (GGML_CPU_ALL_VARIANTS) one file for each
// level of processors, of which ggml takes the best that runs here.
#pragma once

#include <string>

namespace lh {

// Returns the folder of the loaded libggml, in UTF-8; "" if it is unknown.
std::string ggml_folder();

// Loads the backends that lie beside libggml, if none is linked or loaded yet: ggml
// itself looks for them beside the program and in the current folder only. Repeated calls
// have no effect.
void load_backends();

}  // namespace lh
