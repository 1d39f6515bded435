// ggml's CPU backend, with functions found by name. The backend may be loaded at run
// time, so the shim cannot link to it.
#pragma once

#include "ggml-backend.h"

namespace lh {

// Returns null if there is no CPU backend.
inline ggml_backend_dev_t cpu_device() {
  return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
}

// Returns null if the backend has no function of that name.
template <class Function>
Function cpu_function(ggml_backend_dev_t cpu, const char* name) {
  if (cpu == nullptr) return nullptr;
  return reinterpret_cast<Function>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), name));
}

}  // namespace lh
