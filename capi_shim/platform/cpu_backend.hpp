// ggml's CPU backend and those of its functions that only it can name: it may be loaded
// at run time, so that nothing can be linked to it.
#pragma once

#include "ggml-backend.h"

namespace lh {

// Null if there is none.
inline ggml_backend_dev_t cpu_device() {
  return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
}

// Null if it has no function of that name.
template <class Function>
Function cpu_function(ggml_backend_dev_t cpu, const char* name) {
  if (cpu == nullptr) return nullptr;
  return reinterpret_cast<Function>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), name));
}

}  // namespace lh
