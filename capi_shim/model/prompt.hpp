// Tokenization of prompts with special tokens and literal marks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model.hpp"

namespace lh {

// See lh_tokenize_prompt. parse_special: 1, 0, or -1 to decide from the text.
std::vector<int32_t> tokenize_prompt(const lh_model& model, std::string_view text,
                                     int32_t parse_special);

// See lh_mark_literals.
std::string mark_literals(const lh_model& model, std::string_view text);

}  // namespace lh
