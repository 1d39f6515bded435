/* Windows' bcryptprimitives.dll, which Rust's library needs and Wine 8 lacks: random
 * bytes from the function that was its predecessor. */
#include <windows.h>
/* RtlGenRandom, which needs windows.h. */
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
  return size <= MAXDWORD && RtlGenRandom(data, (ULONG)size);
}
