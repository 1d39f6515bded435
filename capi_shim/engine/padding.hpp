// Padding of the parts of a batch, see docs/decisions/0018.
#pragma once

#include <cstdint>
#include <vector>

namespace lh {

// Length of one client's part of a batch.
struct PartLength {
  int32_t n_tokens;
  int32_t position;  // position of the first token, which is the number of KV cells that
                     // a token reads
  int32_t limit;     // maximum length after padding
};

// Returns the length to which each part is padded so that the batch takes the least time.
// libllama computes a batch in rounds. The first round computes all parts up to the
// length of the shortest part. The next round computes the longer parts up to the next
// length, and so on. Each round has a fixed cost. Padding short parts to a common length
// saves rounds and adds rows. `parts` are sorted by n_tokens, shortest first. `room` is
// the maximum number of padding tokens. With AMX (see has_amx) rows are computed in
// complete blocks.
std::vector<int32_t> padded_lengths(const std::vector<PartLength>& parts, int32_t room,
                                    bool amx);

// Tokens that an answer must still decode; all tokens except the first are forced.
struct AnswerLength {
  int32_t seq_id;
  int32_t n_tokens;
};

// Returns the maximum number of tokens per answer in a batch of answers with separate
// streams. Tokens beyond the length of the adjacent parts are computed separately. Unless
// there are few other answers, this costs more than computing these tokens in later steps
// of all answers. `answers` are sorted by seq_id and not empty.
int32_t answer_limit(const std::vector<AnswerLength>& answers, bool amx);

}  // namespace lh
