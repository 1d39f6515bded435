// Replaces operator new, so that allocations.hpp can let it fail. The libraries of
// llama.cpp always have memory: some of their functions leak without it.
#include "allocations.hpp"

#include <cstdlib>
#include <new>
#include <string_view>

#if defined(__linux__)
#include <dlfcn.h>
#endif

namespace {

bool is_of_llama([[maybe_unused]] const void* caller) {
#if defined(__linux__)
  Dl_info library{};
  if (dladdr(caller, &library) == 0) return false;
  const std::string_view name = library.dli_fname;
  return name.find("libllama.") != name.npos || name.find("libggml") != name.npos;
#else
  return false;
#endif
}

// Returns null if the allocation fails.
void* allocate(size_t size, const void* caller) {
  allocations::State& state = allocations::state;
  if (state.is_on && size >= state.least && ++state.n >= state.first) {
    if (state.n <= state.last && !is_of_llama(caller)) return nullptr;
  }
  return std::malloc(size == 0 ? 1 : size);
}

}  // namespace

void* operator new(size_t size) {
  void* block = allocate(size, __builtin_return_address(0));
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, __builtin_return_address(0));
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }
