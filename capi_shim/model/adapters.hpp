// LoRA adapters of a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llama-cpp.h"
#include "llamaherd.h"

namespace lh {

// Checks pointers and numbers.
void check_adapters(const lh_adapters* adapters);

// Checks the files among `adapters` (may be null; after check_adapters) by their headers
// and the header of the model in `model_path`. Refuses files on which libllama would end
// the process. Files that libllama would refuse are refused here with clearer messages.
// Returns the total bytes of their tensors.
uint64_t check_loras(const lh_adapters* adapters, const std::string& model_path);

class Adapters {
 public:
  // Loads the adapters that `from` lists, after check_adapters. `from` may be null.
  void load(const lh_adapters* from, llama_model* model);

  // Transfers ownership of the loaded adapters to their model, which frees them when it
  // is freed. libllama would remove a single adapter from the model's list without a
  // lock.
  void leave_to_model();

  // Applies all adapters to a new context of the model.
  void set(llama_context* ctx) const;

 private:
  static llama_adapter_lora_ptr load_lora(llama_model* model, const char* path);

  std::vector<llama_adapter_lora_ptr> owned_;
  std::vector<llama_adapter_lora*> loras_;  // owned here, or by the model
  std::vector<float> scales_;               // scale of each adapter
};

}  // namespace lh
