#include "openmp.hpp"

#if defined(__linux__) && defined(__LP64__)
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "cpu_backend.hpp"
#include "ggml-cpu.h"
#include "threads.hpp"

// libgomp's own functions, for threads that run its work; null without libgomp.
extern "C" {
[[gnu::weak]] void GOMP_barrier();
[[gnu::weak]] bool GOMP_single_start();
[[gnu::weak]] int omp_get_thread_num();
[[gnu::weak]] int omp_get_num_threads();
}

namespace lh {
namespace {

// ---- replacements of libgomp's functions -----------------------------------------

// n_threads 0: number of processors.
void parallel(void (*run)(void*), void* data, unsigned n_threads, unsigned /*flags*/) {
  if (n_threads == 0) n_threads = std::max(1U, std::thread::hardware_concurrency());
  run_team(run, data, static_cast<int32_t>(n_threads));
}

void barrier() {
  if (team_place() != nullptr) {
    team_barrier();
  } else if (GOMP_barrier != nullptr) {
    GOMP_barrier();
  }
}

bool single_start() {
  if (team_place() != nullptr) return team_single();
  return GOMP_single_start == nullptr || GOMP_single_start();
}

int thread_num() {
  if (const Place* place = team_place()) return place->i_thread;
  return omp_get_thread_num == nullptr ? 0 : omp_get_thread_num();
}

int num_threads() {
  if (const Place* place = team_place()) return place->n_threads;
  return omp_get_num_threads == nullptr ? 1 : omp_get_num_threads();
}

struct Function {
  std::string_view name;
  void* ours;
};

const std::array<Function, 5> kFunctions{{
    {"GOMP_parallel", reinterpret_cast<void*>(parallel)},
    {"GOMP_barrier", reinterpret_cast<void*>(barrier)},
    {"GOMP_single_start", reinterpret_cast<void*>(single_start)},
    {"omp_get_thread_num", reinterpret_cast<void*>(thread_num)},
    {"omp_get_num_threads", reinterpret_cast<void*>(num_threads)},
}};

// ---- addresses of called functions in a loaded library ---------------------------

struct Library {
  uintptr_t base = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  // Address range that the dynamic linker filled and then made read-only.
  uintptr_t sealed_begin = 0;
  uintptr_t sealed_end = 0;
};

struct Search {
  uintptr_t address;
  Library found;
};

// The tables of a library store addresses as integers.
// NOLINTBEGIN(performance-no-int-to-ptr)

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
  if (is_it) search.found = library;
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

struct Slot {
  uintptr_t address;
  std::string_view name;
};

// Returns the locations where the library stores addresses of OpenMP's functions.
std::vector<Slot> openmp_slots(const Library& library) {
  const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(address(library, DT_SYMTAB));
  const auto* names = reinterpret_cast<const char*>(address(library, DT_STRTAB));
  std::vector<Slot> slots;
  const auto collect = [&](uintptr_t table, size_t size) {
    const auto* relocation = reinterpret_cast<const ElfW(Rela)*>(table);
    for (size_t i = 0; i < size / sizeof(*relocation); ++i, ++relocation) {
      if (!holds_function(ELF64_R_TYPE(relocation->r_info))) continue;
      const std::string_view name =
          names + symbols[ELF64_R_SYM(relocation->r_info)].st_name;
      for (const std::string_view start : {"GOMP_", "omp_", "__kmpc_"}) {
        if (name.substr(0, start.size()) != start) continue;
        slots.push_back({library.base + relocation->r_offset, name});
      }
    }
  };
  if (symbols == nullptr || names == nullptr) return slots;
  collect(address(library, DT_RELA), entry(library, DT_RELASZ));
  if (entry(library, DT_PLTREL) == DT_RELA) {
    collect(address(library, DT_JMPREL), entry(library, DT_PLTRELSZ));
  }
  return slots;
}

void* ours(std::string_view name) {
  for (const Function& function : kFunctions) {
    if (function.name == name) return function.ours;
  }
  return nullptr;
}

bool write(const Library& library, const Slot& slot) {
  auto* page = reinterpret_cast<void*>(page_of(slot.address));
  const bool is_sealed =
      slot.address >= library.sealed_begin && slot.address < library.sealed_end;
  if (is_sealed && mprotect(page, page_size(), PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(reinterpret_cast<void**>(slot.address), ours(slot.name),
                   __ATOMIC_RELEASE);
  if (is_sealed) mprotect(page, page_size(), PROT_READ);
  return true;
}

// NOLINTEND(performance-no-int-to-ptr)

bool redirect() {
  const auto inside =
      cpu_function<decltype(&ggml_threadpool_new)>(cpu_device(), "ggml_threadpool_new");
  if (inside == nullptr || !can_make_teams()) return false;
  Search search{reinterpret_cast<uintptr_t>(inside), {}};
  dl_iterate_phdr(look_at_library, &search);
  if (search.found.dynamic == nullptr) return false;
  std::vector<Slot> slots = openmp_slots(search.found);
  // Replaces all functions or none, because libgomp does not know llamaherd's threads.
  const auto is_known = [](const Slot& slot) { return ours(slot.name) != nullptr; };
  if (slots.size() < kFunctions.size() ||
      !std::all_of(slots.begin(), slots.end(), is_known)) {
    return false;
  }
  // The function that starts a team is replaced last. On threads outside such a team, the
  // other functions still call libgomp's.
  const auto others_end =
      std::partition(slots.begin(), slots.end(),
                     [](const Slot& slot) { return slot.name != kFunctions[0].name; });
  const auto write_it = [&](const Slot& slot) { return write(search.found, slot); };
  return std::all_of(slots.begin(), others_end, write_it) &&
         std::all_of(others_end, slots.end(), write_it);
}

}  // namespace

bool own_threads() {
  static const bool redirected = redirect();
  return redirected;
}

}  // namespace lh

#else

namespace lh {

bool own_threads() { return false; }

}  // namespace lh

#endif
