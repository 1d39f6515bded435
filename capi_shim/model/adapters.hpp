// What is added to a model's weights: LoRA adapters and a control vector.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "llama.h"
#include "llamaherd.h"

namespace lh {

// Refuses pointers and numbers that cannot be. is_borrowed: the model is not ours, so
// that nothing may be loaded into it.
void check_adapters(const lh_adapters* adapters, bool is_borrowed);

class Adapters {
 public:
  // Takes what `from` lists, after check_adapters; it may be null.
  void load(const lh_adapters* from, llama_model* model);

  // Sets all on a new context of the model.
  void set(const llama_model* model, llama_context* ctx) const;

 private:
  struct Deleter {
    void operator()(llama_adapter_lora* lora) const { llama_adapter_lora_free(lora); }
  };
  using LoraPtr = std::unique_ptr<llama_adapter_lora, Deleter>;

  static LoraPtr load_lora(llama_model* model, const char* path);

  std::vector<LoraPtr> owned_;
  std::vector<llama_adapter_lora*> loras_;  // owned or not
  std::vector<float> scales_;               // of each
  std::vector<float> cvec_;
  int32_t cvec_first_layer_ = 0;
  int32_t cvec_last_layer_ = 0;
};

}  // namespace lh
