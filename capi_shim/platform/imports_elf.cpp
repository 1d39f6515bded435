#include "imports.hpp"

#if defined(__linux__) && defined(__LP64__)
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

// The tables of a library store addresses as integers.
// NOLINTBEGIN(performance-no-int-to-ptr)

namespace lh {
namespace {

struct Library {
  uintptr_t base = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  // Address range that the dynamic linker filled and then made read-only.
  uintptr_t sealed_begin = 0;
  uintptr_t sealed_end = 0;
};

struct Search {
  uintptr_t address;
  Library library;
};

uintptr_t page_size() { return static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)); }

uintptr_t page_of(uintptr_t address) { return address & ~(page_size() - 1); }

int look_at_library(dl_phdr_info* info, size_t /*size*/, void* data) {
  auto& search = *static_cast<Search*>(data);
  Library library{info->dlpi_addr};
  bool is_it = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & part = info->dlpi_phdr[i];
    const uintptr_t begin = library.base + part.p_vaddr;
    const uintptr_t end = begin + part.p_memsz;
    if (part.p_type == PT_LOAD) is_it |= search.address >= begin && search.address < end;
    if (part.p_type == PT_DYNAMIC) {
      library.dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
    }
    if (part.p_type == PT_GNU_RELRO) {
      library.sealed_begin = page_of(begin);
      library.sealed_end = page_of(end);
    }
  }
  if (is_it) search.library = library;
  return is_it ? 1 : 0;
}

// Returns an entry of the dynamic section; 0: missing.
uintptr_t entry(const Library& library, int64_t tag) {
  for (const ElfW(Dyn)* dyn = library.dynamic; dyn->d_tag != DT_NULL; ++dyn) {
    if (dyn->d_tag == tag) return dyn->d_un.d_val;
  }
  return 0;
}

// Returns an entry that is an address. glibc makes this address absolute; other linkers
// leave it relative.
uintptr_t address(const Library& library, int64_t tag) {
  const uintptr_t value = entry(library, tag);
  return value == 0 || value >= library.base ? value : library.base + value;
}

bool holds_function(uint64_t relocation_type) {
#if defined(__x86_64__)
  return relocation_type == R_X86_64_JUMP_SLOT || relocation_type == R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
  return relocation_type == R_AARCH64_JUMP_SLOT || relocation_type == R_AARCH64_GLOB_DAT;
#else
  return false;
#endif
}

}  // namespace

std::vector<Import> imports_of(const void* inside) {
  Search search{reinterpret_cast<uintptr_t>(inside), {}};
  dl_iterate_phdr(look_at_library, &search);
  const Library& library = search.library;
  if (library.dynamic == nullptr) return {};
  const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(address(library, DT_SYMTAB));
  const auto* names = reinterpret_cast<const char*>(address(library, DT_STRTAB));
  if (symbols == nullptr || names == nullptr) return {};
  std::vector<Import> imports;
  const auto collect = [&](uintptr_t table, size_t size) {
    const auto* relocation = reinterpret_cast<const ElfW(Rela)*>(table);
    for (size_t i = 0; i < size / sizeof(*relocation); ++i, ++relocation) {
      if (!holds_function(ELF64_R_TYPE(relocation->r_info))) continue;
      const uintptr_t slot = library.base + relocation->r_offset;
      imports.push_back({names + symbols[ELF64_R_SYM(relocation->r_info)].st_name,
                         reinterpret_cast<void**>(slot),
                         slot >= library.sealed_begin && slot < library.sealed_end});
    }
  };
  collect(address(library, DT_RELA), entry(library, DT_RELASZ));
  if (entry(library, DT_PLTREL) == DT_RELA) {
    collect(address(library, DT_JMPREL), entry(library, DT_PLTRELSZ));
  }
  return imports;
}

bool replace(const Import& import, void* function) {
  auto* page = reinterpret_cast<void*>(page_of(reinterpret_cast<uintptr_t>(import.slot)));
  if (import.is_read_only && mprotect(page, page_size(), PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  __atomic_store_n(import.slot, function, __ATOMIC_RELEASE);
  if (import.is_read_only) mprotect(page, page_size(), PROT_READ);
  return true;
}

}  // namespace lh

// NOLINTEND(performance-no-int-to-ptr)

#elif !defined(_WIN32)

namespace lh {

std::vector<Import> imports_of(const void*) { return {}; }

bool replace(const Import&, void*) { return false; }

}  // namespace lh

#endif
