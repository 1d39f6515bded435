/* Counts checks and prints failed ones, for the test programs in plain C. */
#pragma once

#include <stdio.h>

static int n_failed = 0;
static int n_passed = 0;

static void check(int ok, const char* what, const char* file, int line) {
  if (ok) {
    ++n_passed;
  } else {
    ++n_failed;
    fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
  }
}
#define CHECK(condition) check((condition) ? 1 : 0, #condition, __FILE__, __LINE__)
#define SUCCEEDS(call) CHECK((call) == 0)
#define REFUSES(call) CHECK((call) == INVALID) /* each program defines INVALID */
