// fseeko takes an off_t, which has 32 bits on some systems unless this macro is set.
#define _FILE_OFFSET_BITS 64  // NOLINT(bugprone-reserved-identifier)
#include "file.hpp"

#if defined(_WIN32)
#include <windows.h>
#else
#include <sys/types.h>
#endif

namespace lh {

#if defined(_WIN32)

// fopen would read the path in the code page of the user's language.
File open_file(const std::string& path) {
  const int n = MultiByteToWideChar(CP_UTF8, 0, path.c_str(), -1, nullptr, 0);
  std::wstring wide(static_cast<size_t>(n), L'\0');
  MultiByteToWideChar(CP_UTF8, 0, path.c_str(), -1, wide.data(), n);
  return File(_wfopen(wide.c_str(), L"rb"));
}

bool seek(std::FILE* file, int64_t offset, int origin) {
  return _fseeki64(file, offset, origin) == 0;
}

int64_t position(std::FILE* file) { return _ftelli64(file); }

#else

File open_file(const std::string& path) { return File(std::fopen(path.c_str(), "rb")); }

bool seek(std::FILE* file, int64_t offset, int origin) {
  return fseeko(file, static_cast<off_t>(offset), origin) == 0;
}

int64_t position(std::FILE* file) { return static_cast<int64_t>(ftello(file)); }

#endif

}  // namespace lh
