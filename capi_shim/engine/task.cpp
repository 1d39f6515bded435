#include "task.hpp"

namespace lh {

float* StepServices::find_logits(int32_t i_logits) const noexcept {
  try {
    return llama_get_logits_ith(ctx, i_logits);
  } catch (...) {
    return nullptr;
  }
}

}  // namespace lh
