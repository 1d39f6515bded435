#include "prefix.hpp"

#include <cmath>
#include <memory>
#include <vector>

#include "batch_builder.hpp"
#include "client.hpp"
#include "guard.hpp"
#include "logit_row.hpp"
#include "model.hpp"

namespace lh {
namespace {

// Requests draw from this row later, so that errors in the row must be detected now.
void keep_row(const StepServices& step, const BatchPart& part, LogitRow& row) {
  if (part.logits == nullptr) throw Error(LH_DECODE_ERROR, "libllama gave no logits");
  row.find(part.logits);
  if (!std::isfinite(row.highest())) {
    throw Error(LH_DECODE_ERROR, "the model's logits are not finite numbers");
  }
  part.client->logits = std::make_shared<const std::vector<float>>(
      part.logits, part.logits + step.model.n_vocab());
}

}  // namespace

int32_t Prefix::first_row(const Client& client) const {
  return is_whole_ ? Task::first_row(client) : kNoRow;
}

// After prefill the cells belong to all forks of the prefix. Cells of padding that
// libllama did not remove would fail each fork, so that such a prefix fails instead.
void Prefix::settle(const StepServices& step, BatchPart& part, LogitRow& row) {
  Client& client = *part.client;
  try {
    if (part.n_rows > 0) keep_row(step, part, row);
    if (client.n_pending(step.kv.positions()) > 0) return;
    step.kv.verify(client.seq_id);
    client.state = LH_STATE_HELD;
    step.kv.share(client.seq_id);
  } catch (...) {
    client.fail(step.kv);
  }
}

}  // namespace lh
