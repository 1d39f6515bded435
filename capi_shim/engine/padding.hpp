// How far the parts of a batch are padded: docs/decisions/0026.
#pragma once

#include <cstdint>
#include <vector>

namespace lh {

// One client's share of a batch.
struct PartLength {
  int32_t n_tokens;
  int32_t position;  // of the first token: so many KV cells are read for each
  int32_t limit;     // padding may make it so long, no longer
};

// libllama computes a batch in rounds: all parts up to the length of the shortest, then
// what is left of the others up to the next length, and so on. A round has a fixed cost.
// Padding short parts to a common length saves rounds and adds rows.
//
// Returns to how many tokens to pad each part so that the batch takes the least time.
// `parts` are sorted by n_tokens, shortest first. `room` is the number of padding tokens
// that fit. With AMX (see has_amx) rows are computed in whole blocks.
std::vector<int32_t> padded_lengths(const std::vector<PartLength>& parts, int32_t room,
                                    bool amx);

// Tokens that an answer has yet to be computed, of which all but the first had to come.
struct AnswerLength {
  int32_t seq_id;
  int32_t n_tokens;
};

// How many tokens of each answer at most to compute in a batch of answers with streams of
// their own. What is longer than its neighbours is computed by itself, which costs more
// than to compute it with the next steps of the others, unless there are few others.
// `answers` are sorted by seq_id, and there is one at least.
int32_t answer_limit(const std::vector<AnswerLength>& answers, bool amx);

}  // namespace lh
