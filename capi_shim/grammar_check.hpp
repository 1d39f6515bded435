// What libllama's grammar parser must not be given: it recurses without a limit, and a
// stack that overflows ends the process.
#pragma once

#include <string_view>

namespace lh {

// Throws Error (LH_SAMPLER_ERROR) for a GBNF grammar that nests too deep, or has too many
// rules that may refer to each other.
void check_grammar(std::string_view text);

}  // namespace lh
