#include "guard.hpp"

#include <cstring>
#include <new>

#include "utf8.hpp"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace lh {
namespace {

constexpr const char* kNoMemory = "out of memory";  // short: std::string has room for it

}  // namespace

void return_free_memory() noexcept {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

int32_t set_error(lh_error* error, int32_t code, const char* message) noexcept {
  if (error == nullptr) return code;
  error->code = code;
  const size_t room = sizeof(error->message) - 1;
  const size_t size = std::strlen(message);
  const size_t kept = size <= room ? size : utf8_complete_prefix(message, room);
  std::memcpy(error->message, message, kept);
  error->message[kept] = '\0';
  return code;
}

void copy_message(const char* message, std::string& to) noexcept {
  try {
    to = message;
  } catch (const std::bad_alloc&) {
    to = kNoMemory;
  }
}

int32_t translate_exception(lh_error* error) noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return set_error(error, e.code(), e.what());
  } catch (const std::bad_alloc&) {
    return set_error(error, LH_INTERNAL, kNoMemory);
  } catch (const std::exception& e) {
    return set_error(error, LH_INTERNAL, e.what());
  } catch (...) {
    return set_error(error, LH_INTERNAL, "an unknown exception was thrown");
  }
}

}  // namespace lh
