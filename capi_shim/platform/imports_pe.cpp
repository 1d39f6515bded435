#include "imports.hpp"

#if defined(_WIN32)
#include <windows.h>

#include <cstdint>

namespace lh {

// Source of the structures: "PE Format" of Microsoft's documentation, ".idata section".
std::vector<Import> imports_of(const void* inside) {
  HMODULE library = nullptr;
  if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                              GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                          static_cast<LPCWSTR>(inside), &library)) {
    return {};
  }
  auto* const base = reinterpret_cast<uint8_t*>(library);
  const auto* dos = reinterpret_cast<const IMAGE_DOS_HEADER*>(base);
  const auto* headers = reinterpret_cast<const IMAGE_NT_HEADERS*>(base + dos->e_lfanew);
  const IMAGE_DATA_DIRECTORY& table =
      headers->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT];
  std::vector<Import> imports;
  if (table.Size == 0) return imports;
  const auto* from =
      reinterpret_cast<const IMAGE_IMPORT_DESCRIPTOR*>(base + table.VirtualAddress);
  for (; from->FirstThunk != 0; ++from) {         // one per library that this one needs
    if (from->OriginalFirstThunk == 0) continue;  // without names
    const auto* entry =
        reinterpret_cast<const IMAGE_THUNK_DATA*>(base + from->OriginalFirstThunk);
    auto* slot = reinterpret_cast<void**>(base + from->FirstThunk);
    for (; entry->u1.AddressOfData != 0; ++entry, ++slot) {
      if (IMAGE_SNAP_BY_ORDINAL(entry->u1.Ordinal)) continue;  // a number, not a name
      const auto* by_name =
          reinterpret_cast<const IMAGE_IMPORT_BY_NAME*>(base + entry->u1.AddressOfData);
      imports.push_back({reinterpret_cast<const char*>(by_name->Name), slot, true});
    }
  }
  return imports;
}

bool replace(const Import& import, void* function) {
  DWORD before = 0;
  if (!VirtualProtect(import.slot, sizeof(void*), PAGE_READWRITE, &before)) return false;
  InterlockedExchangePointer(import.slot, function);
  VirtualProtect(import.slot, sizeof(void*), before, &before);
  return true;
}

}  // namespace lh

#endif
