// Tests which malloc this process uses.
#ifndef LLAMAHERD_TESTS_MALLOC_HPP
#define LLAMAHERD_TESTS_MALLOC_HPP

#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

// Returns false if another malloc replaces glibc's malloc, as under valgrind.
inline bool is_glibc_malloc() {
#if defined(__GLIBC__)
  return mallinfo2().arena != 0;
#else
  return false;
#endif
}

#endif  // LLAMAHERD_TESTS_MALLOC_HPP
