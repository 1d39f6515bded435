// Functions that a loaded library calls in other libraries: tables of addresses that the
// loader of Linux (ELF) or Windows (PE) has filled.
#pragma once

#include <string_view>
#include <vector>

namespace lh {

struct Import {
  std::string_view name;  // of the function; valid while the library is loaded
  void** slot;            // where the library stores the function's address
  bool is_read_only;      // whether the loader made the slot's memory read-only
};

// Returns the imports of the library that contains an address. Empty: unknown, or another
// system.
std::vector<Import> imports_of(const void* inside);

// Makes the library call `function`. Returns false if its memory cannot be changed.
bool replace(const Import& import, void* function);

}  // namespace lh
