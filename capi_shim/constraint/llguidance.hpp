// JSON Schema, regular expressions and Lark grammars, matched by the library llguidance
// (github.com/guidance-ai/llguidance). Python passes the addresses of the library's
// functions (docs/decisions/0037).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "constraint.hpp"
#include "llamaherd.h"
#include "model.hpp"

namespace lh {

// Throws Error (LH_INVALID_ARGUMENT) for missing addresses or an unsupported version.
void set_llguidance(const lh_llguidance& functions);

// Returns the constraint `text` in its initial state. kind: any kind of lh_grammar_kind
// except LH_GRAMMAR_GBNF. The model must outlive the constraint. Throws Error
// (LH_SAMPLER_ERROR) if llguidance rejects the text or was not registered.
std::unique_ptr<Constraint> start_llguidance(const lh_model& model, int32_t kind,
                                             const char* text);

// Tests whether the masks of the constraint allow each token of `text`, and whether the
// text is complete afterwards. The text is split into tokens by the model's tokenizer;
// tokens that the constraint forces are used as they are.
bool accepts_text(Constraint& constraint, const lh_model& model, std::string_view text);

}  // namespace lh
