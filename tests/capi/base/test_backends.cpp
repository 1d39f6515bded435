// Tests the loading of ggml's backends from separate files.
#include <doctest/doctest.h>

#include <filesystem>

#include "backends.hpp"
#include "fake_llama.hpp"
#include "log.hpp"

namespace fs = std::filesystem;

TEST_CASE("the folder of ggml is the one that its library was loaded from") {
  const fs::path folder = fs::u8path(lh::ggml_folder());
  CHECK(folder.is_absolute());
  bool has_library = false;
  for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
    has_library |= file.path().filename().string().find("ggml-base") != std::string::npos;
  }
  CHECK(has_library);
}

TEST_CASE("backends that are files are loaded from the folder of ggml, once") {
  fake::reset();
  fake::settings().n_backends = 0;
  lh::backend_init(false);
  CHECK(fake::backends_folder() == lh::ggml_folder());
  fake::backends_folder().clear();
  lh::backend_init(false);
  CHECK(fake::backends_folder().empty());
  fake::reset();
}

TEST_CASE("the log is redirected before backends start") {
  fake::reset();
  llama_log_set(nullptr, nullptr);  // back to stderr
  lh::backend_init(false);
  ggml_log_callback callback = nullptr;
  void* data = nullptr;
  llama_log_get(&callback, &data);
  const bool is_ours =
      fake::log_at_start() == callback;  // doctest 2.4.9 prints no functions
  CHECK(is_ours);
}

TEST_CASE("a ggml with linked backends loads no other") {
  fake::reset();
  lh::backend_init(false);
  CHECK(fake::backends_folder().empty());
}
