/* Complex functions of Windows' C library that NumPy needs and Wine 8 lacks, with the
 * types of Microsoft's compiler: a pair of numbers, and a long double of 64 bits. The
 * library exports "wine_cexp" and so on under the names without "wine_"
 * (scripts/cross/math_def.py). */
#include <complex.h>

typedef struct {
  double re, im;
} pair;
typedef struct {
  float re, im;
} pairf;

static double complex given(pair z) { return z.re + z.im * I; }
static pair taken(double complex z) {
  const pair made = {creal(z), cimag(z)};
  return made;
}
static pair wide(pairf z) {
  const pair made = {z.re, z.im};
  return made;
}
static pairf narrow(pair z) {
  const pairf made = {(float)z.re, (float)z.im};
  return made;
}

#define NUMBER(name)                                       \
  double wine_##name(pair z) { return name(given(z)); }    \
  double wine_##name##l(pair z) { return name(given(z)); } \
  float wine_##name##f(pairf z) { return (float)name(given(wide(z))); }
#define PAIR(name)                                           \
  pair wine_##name(pair z) { return taken(name(given(z))); } \
  pair wine_##name##l(pair z) { return wine_##name(z); }     \
  pairf wine_##name##f(pairf z) { return narrow(wine_##name(wide(z))); }

NUMBER(cabs)
NUMBER(carg)
NUMBER(cimag)
NUMBER(creal)
PAIR(ccos)
PAIR(ccosh)
PAIR(cexp)
PAIR(csin)
PAIR(csinh)
PAIR(ctan)
PAIR(ctanh)

pair wine_cpow(pair a, pair b) { return taken(cpow(given(a), given(b))); }
pair wine_cpowl(pair a, pair b) { return wine_cpow(a, b); }
pairf wine_cpowf(pairf a, pairf b) { return narrow(wine_cpow(wide(a), wide(b))); }
