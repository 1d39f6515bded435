// Errors inside the shim, and the guard that keeps exceptions from crossing the C ABI.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "llamaherd.h"
#include "memory.hpp"
#include "process_check.hpp"

namespace lh {

// Error with the status code for the C caller.
class Error : public std::runtime_error {
 public:
  Error(lh_status code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  lh_status code() const noexcept { return code_; }

 private:
  lh_status code_;
};

// Fills `error` (may be null) and returns `code`. Truncates a long message between
// characters.
int32_t set_error(lh_error* error, int32_t code, const char* message) noexcept;

// Copies a message. If there is no memory for it, writes a message that needs none.
void copy_message(const char* message, std::string& to) noexcept;

// Converts the exception that is being handled to a status and a message.
int32_t translate_exception(lh_error* error) noexcept;

// Runs the body of an extern "C" function and catches every exception. In a refused
// forked child, the body does not run.
template <class Body>
int32_t guard(lh_error* error, Body&& body) noexcept {
  try {
    check_process();
    const Guarded guarded;
    std::forward<Body>(body)();
    return set_error(error, LH_OK, "");
  } catch (...) {
    return translate_exception(error);
  }
}

// Returns freed memory from the C library to the system. Otherwise glibc would keep up to
// 32 MB for each size of a context's buffers, in each thread that has freed such buffers.
void return_free_memory() noexcept;

// Frees an object of the caller and returns its memory to the system. In a forked child
// the object is not freed, and its locks are not touched.
template <class T>
void free_unless_forked(T* pointer) noexcept {
  if (pointer == nullptr || is_refused_child()) return;
  std::unique_ptr<T>(pointer).reset();
  return_free_memory();
}

// Runs the body of a function whose result is not a status; returns `fallback` for any
// error.
template <class T, class Body>
T value_or(T fallback, Body&& body) noexcept {
  T value = fallback;
  const int32_t status = guard(nullptr, [&] { value = body(); });
  return status == LH_OK ? value : fallback;
}

inline void require(bool condition, const std::string& message) {
  if (!condition) throw Error(LH_INVALID_ARGUMENT, message);
}

// Dereferences a pointer argument that must not be null.
template <class T>
T& deref(T* pointer, const char* name) {
  if (pointer == nullptr) {
    throw Error(LH_INVALID_ARGUMENT, std::string(name) + " must not be NULL");
  }
  return *pointer;
}

// Checks that a number argument lies within [low, high].
inline void require_range(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    throw Error(LH_INVALID_ARGUMENT,
                std::string(name) + " must be between " + std::to_string(low) + " and " +
                    std::to_string(high) + ", not " + std::to_string(value));
  }
}

}  // namespace lh
