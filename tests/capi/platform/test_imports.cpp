// Tests of the tables of imported functions in loaded libraries.
#include <doctest/doctest.h>

#include <algorithm>

#include "ggml.h"
#include "imports.hpp"

#if defined(__linux__) || defined(_WIN32)

TEST_CASE("the imports of a library have names and places that can be written") {
  const auto imports = lh::imports_of(reinterpret_cast<const void*>(&ggml_init));
  REQUIRE(!imports.empty());
  for (const lh::Import& import : imports) {
    CHECK(!import.name.empty());
    REQUIRE(import.slot != nullptr);
    void* const function = *import.slot;
    CHECK(lh::replace(import, function));
    CHECK(*import.slot == function);
  }
  // Both ggml's library and a program that calls ggml need this function of C.
  CHECK(std::any_of(imports.begin(), imports.end(),
                    [](const lh::Import& import) { return import.name == "memcpy"; }));
}

#endif

TEST_CASE("an address outside all libraries has no imports") {
  const int local = 0;
  CHECK(lh::imports_of(&local).empty());
}
