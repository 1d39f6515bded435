// Tests that freed memory is returned to the system.
#include <doctest/doctest.h>

#include <cstdlib>

#include "malloc.hpp"
#include "memory.hpp"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {

// Returns whether glibc maps a block of this size instead of allocating it in a heap.
bool is_mapped(size_t bytes) {
  malloc_trim(0);  // glibc first uses free memory in a heap
  const size_t before = mallinfo2().hblks;
  void* volatile block = std::malloc(bytes);
  const bool is = mallinfo2().hblks > before;
  std::free(block);
  return is;
}

}  // namespace

TEST_CASE("large blocks are apart from the heap while one asks for it") {
  if (!is_glibc_malloc()) return;
  constexpr size_t kMany = size_t{8} << 20U;
  static_cast<void>(
      is_mapped(2 * kMany));  // after it is freed, glibc allocates such blocks in heaps
  CHECK_FALSE(is_mapped(kMany));
  {
    const lh::LargeBlocksApart apart;
    CHECK(is_mapped(kMany));
  }
  CHECK_FALSE(is_mapped(kMany));
}
#endif
