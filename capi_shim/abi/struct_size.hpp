// Checks of struct_size, the first field of every struct that a client fills.
#pragma once

#include <cstdint>
#include <string>

#include "guard.hpp"
#include "llamaherd.h"

namespace lh {

template <class T>
inline constexpr const char* kStructName = nullptr;
#define LH_STRUCT_NAME(T) \
  template <>             \
  inline constexpr const char* kStructName<T> = #T
LH_STRUCT_NAME(lh_lora);
LH_STRUCT_NAME(lh_adapters);
LH_STRUCT_NAME(lh_model_params);
LH_STRUCT_NAME(lh_embedder_params);
LH_STRUCT_NAME(lh_engine_params);
LH_STRUCT_NAME(lh_sampling_params);
LH_STRUCT_NAME(lh_llguidance);
LH_STRUCT_NAME(lh_score);
LH_STRUCT_NAME(lh_choice_paths);
LH_STRUCT_NAME(lh_thinking);
LH_STRUCT_NAME(lh_request);
LH_STRUCT_NAME(lh_run_params);
#undef LH_STRUCT_NAME

// Sets a client's struct to zeros, with its size, and then the defaults that `fill` sets.
template <class T, class Fill>
void set_defaults(T* params, Fill fill) noexcept {
  guard(nullptr, [&] {
    T& p = deref(params, "params") = {};
    p.struct_size = sizeof(T);
    fill(p);
  });
}

// Throws Error (LH_INVALID_ARGUMENT) unless the client's struct has the library's size.
template <class T>
void check_size(const T& value) {
  static_assert(kStructName<T> != nullptr, "a struct that no client fills");
  if (value.struct_size == sizeof(T)) return;
  const std::string name = kStructName<T>;
  throw Error(LH_INVALID_ARGUMENT,
              "struct_size of " + name + " must be " + std::to_string(sizeof(T)) +
                  ", not " + std::to_string(value.struct_size) + ": set it to sizeof(" +
                  name + "), and compile with the llamaherd.h of this library");
}

// Does the same check for an argument that must not be NULL.
template <class T>
const T& deref_sized(const T* pointer, const char* argument) {
  const T& value = deref(pointer, argument);
  check_size(value);
  return value;
}

// Checks the struct_size of a model's adapters (may be NULL) and of each LoRA adapter
// among them.
inline void check_adapter_sizes(const lh_adapters* adapters) {
  if (adapters == nullptr) return;
  check_size(*adapters);
  if (adapters->lora == nullptr) return;  // reported elsewhere if n_lora is not 0
  for (int32_t i = 0; i < adapters->n_lora; ++i) check_size(adapters->lora[i]);
}

// Checks the struct_size of a request and of the structs to which it points.
inline const lh_request& check_request_sizes(const lh_request* request) {
  const lh_request& checked = deref_sized(request, "request");
  if (checked.sampling != nullptr) check_size(*checked.sampling);
  if (checked.score != nullptr) check_size(*checked.score);
  if (checked.paths != nullptr) check_size(*checked.paths);
  if (checked.thinking != nullptr) {
    check_size(*checked.thinking);
    if (checked.thinking->sampling != nullptr) check_size(*checked.thinking->sampling);
  }
  return checked;
}

}  // namespace lh
