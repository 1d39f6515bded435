// Tree of the prefixes that prompts share. Needs no model.
#pragma once

#include <cstdint>
#include <vector>

namespace lh {

struct PrefixTree {
  std::vector<int32_t> order;    // prompts in depth-first order
  std::vector<int32_t> node_of;  // node that each prompt continues; -1: none
  std::vector<int32_t> node_parent;
  std::vector<int32_t> node_length;  // length in tokens from the start of the prompt
  std::vector<int32_t> node_prompt;  // one prompt that starts with the node's tokens
};

// See lh_min_prefix_tokens.
int32_t min_prefix_tokens(int64_t n_cells);

// Builds the tree. Prompt i is tokens[offsets[i]] .. tokens[offsets[i + 1] - 1]; see
// lh_prefix_tree. Method: sort the prompts; the common prefixes of adjacent prompts are
// the inner nodes of the tree (LCP intervals: Abouelhoda, Kurtz and Ohlebusch 2004,
// doi:10.1016/S1570-8667(03)00065-0).
PrefixTree build_prefix_tree(const int32_t* tokens, const int64_t* offsets,
                             int32_t n_prompts, int32_t min_tokens);

}  // namespace lh
