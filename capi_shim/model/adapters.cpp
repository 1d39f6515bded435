#include "adapters.hpp"

#include <cmath>
#include <string>

#include "guard.hpp"
#include "log.hpp"

namespace lh {

void check_adapters(const lh_adapters* adapters) {
  if (adapters == nullptr) return;
  require_range("n_lora", adapters->n_lora, 0, 1024);
  if (adapters->n_lora > 0) deref(adapters->lora, "lora");
  for (int32_t i = 0; i < adapters->n_lora; ++i) {
    const lh_lora& lora = adapters->lora[i];
    require(std::isfinite(lora.scale), "lora[" + std::to_string(i) +
                                           "].scale must be a finite number, not " +
                                           std::to_string(lora.scale));
    deref(lora.path, "lora.path");
  }
}

void Adapters::load(const lh_adapters* from, llama_model* model) {
  if (from == nullptr) return;
  for (int32_t i = 0; i < from->n_lora; ++i) {
    owned_.push_back(load_lora(model, from->lora[i].path));
    loras_.push_back(owned_.back().get());
    scales_.push_back(from->lora[i].scale);
  }
}

void Adapters::leave_to_model() {
  for (llama_adapter_lora_ptr& lora : owned_)
    lora.release();  // NOLINT(bugprone-unused-return-value)
  owned_.clear();
}

llama_adapter_lora_ptr Adapters::load_lora(llama_model* model, const char* path) {
  const LogMark mark;
  llama_adapter_lora_ptr lora(llama_adapter_lora_init(model, path));
  if (lora == nullptr) {
    throw Error(LH_MODEL_ERROR, "cannot load LoRA file \"" + std::string(path) +
                                    "\": " + mark.last_error());
  }
  return lora;
}

void Adapters::set(llama_context* ctx) const {
  // libllama takes non-const pointers.
  std::vector<llama_adapter_lora*> loras = loras_;
  std::vector<float> scales = scales_;
  if (!loras.empty() &&
      llama_set_adapters_lora(ctx, loras.data(), loras.size(), scales.data()) != 0) {
    throw Error(LH_CONTEXT_ERROR, "libllama refused the LoRA adapters");
  }
}

}  // namespace lh
