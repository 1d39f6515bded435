// Replaces operator new, so that allocations.hpp can let it fail.
#include "allocations.hpp"

#include <cstdlib>
#include <new>

namespace {

bool fails(size_t size) {
  allocations::State& state = allocations::state;
  if (!state.is_on || size < state.least) return false;
  ++state.n;
  return state.n >= state.first && state.n <= state.last;
}

}  // namespace

void* operator new(size_t size) {
  void* block = fails(size) ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }
