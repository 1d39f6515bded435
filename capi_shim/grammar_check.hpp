// What libllama's grammars must not be given: its parser recurses without a limit, and a
// stack that overflows ends the process; what it then does cannot be interrupted.
#pragma once

#include <string_view>

namespace lh {

// Throws Error (LH_SAMPLER_ERROR) for a GBNF grammar that nests too deep, has too many
// rules that may refer to each other, can start in too many ways, or has a rule that can
// come to itself without a character and leave something to do each time.
//
// Other errors of the grammar are left to libllama's parser.
void check_grammar(std::string_view text);

}  // namespace lh
