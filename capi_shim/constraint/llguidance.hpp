// JSON Schema, regular expressions and Lark grammars: followed by the library llguidance
// (github.com/guidance-ai/llguidance), whose functions Python hands over by their
// addresses (docs/decisions/0037).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "constraint.hpp"
#include "llamaherd.h"
#include "model.hpp"

namespace lh {

// Throws Error (LH_INVALID_ARGUMENT) for addresses that are missing or of a version that
// this is not written for.
void set_llguidance(const lh_llguidance& functions);

// The start of what `text` asks for. kind: LH_GRAMMAR_JSON_SCHEMA and those behind it.
// The model must live longer. Throws Error: LH_SAMPLER_ERROR for a text that llguidance
// does not take, or if it was not handed over.
std::unique_ptr<Constraint> start_llguidance(const lh_model& model, int32_t kind,
                                             const char* text);

// Whether `text`, cut into tokens as the model does it, or as the constraint forces them,
// gets through the masks of the constraint token by token and is complete then.
bool accepts_text(Constraint& constraint, const lh_model& model, std::string_view text);

}  // namespace lh
