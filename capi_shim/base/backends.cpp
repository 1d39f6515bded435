#include "backends.hpp"

#include <filesystem>
#include <mutex>

#include "ggml-backend.h"
#include "ggml.h"

#if defined(_WIN32)
#include <windows.h>

#include <array>
#else
#include <dlfcn.h>
#endif

namespace lh {
namespace {

// Returns the path of libggml-base, which is in the folder of libggml; "" if unknown.
std::filesystem::path ggml_path() {
#if defined(_WIN32)
  for (const wchar_t* name : {L"ggml-base.dll", L"libggml-base.dll"}) {
    const HMODULE library = GetModuleHandleW(name);
    if (library == nullptr) continue;
    std::array<wchar_t, 32768> path{};  // maximum length of a path
    const DWORD n =
        GetModuleFileNameW(library, path.data(), static_cast<DWORD>(path.size()));
    return std::wstring(path.data(), n);
  }
  return {};
#else
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&ggml_commit), &info) == 0) return {};
  return info.dli_fname == nullptr ? "" : info.dli_fname;
#endif
}

}  // namespace

std::string ggml_folder() { return ggml_path().parent_path().u8string(); }

void load_backends() {
  static std::mutex mutex;  // ggml has no backends yet
  const std::scoped_lock lock(mutex);
  if (ggml_backend_reg_count() > 0) return;
  const std::string folder = ggml_folder();
  if (!folder.empty()) ggml_backend_load_all_from_path(folder.c_str());
}

}  // namespace lh
