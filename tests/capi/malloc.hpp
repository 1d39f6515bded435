// Which malloc this process has.
#ifndef LLAMAHERD_TESTS_MALLOC_HPP
#define LLAMAHERD_TESTS_MALLOC_HPP

#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

// Not if another one is in front of glibc's, as under valgrind.
inline bool is_glibc_malloc() {
#if defined(__GLIBC__)
  return mallinfo2().arena != 0;
#else
  return false;
#endif
}

#endif  // LLAMAHERD_TESTS_MALLOC_HPP
