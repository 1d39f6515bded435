// Tests files that only some systems read by default: other names, and large ones.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "file.hpp"

namespace fs = std::filesystem;

namespace {

// A file in a temporary folder, which is removed with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& utf8_name)
      : path_(fs::temp_directory_path() / fs::u8path(utf8_name)) {
    std::ofstream(path_, std::ios::binary) << "text";
  }
  ~TemporaryFile() { fs::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("a file is opened by its name in UTF-8") {
  // German, Greek, Chinese, and a character beyond 16 bits
  for (const char* name : {"lh-plain", "lh-\xC3\xBC", "lh-\xCE\xBB", "lh-\xE6\x96\x87",
                           "lh-\xF0\x9F\x98\x80"}) {
    const TemporaryFile there(name);
    const lh::File file = lh::open_file(there.path().u8string());
    CAPTURE(name);
    REQUIRE(file != nullptr);
    char text[4] = {};
    CHECK(std::fread(text, 1, sizeof text, file.get()) == sizeof text);
    CHECK(std::string(text, sizeof text) == "text");
  }
  CHECK(lh::open_file("no such \xCE\xBB") == nullptr);
}

TEST_CASE("positions beyond 2 GiB are exact") {
  constexpr int64_t kBytes = (int64_t{5} << 30U) + 3;
  const TemporaryFile there("lh-long");
  fs::resize_file(there.path(), kBytes);  // takes no space on disk
  const lh::File file = lh::open_file(there.path().u8string());
  REQUIRE(file != nullptr);
  CHECK(lh::seek(file.get(), 0, SEEK_END));
  CHECK(lh::position(file.get()) == kBytes);
  CHECK(lh::seek(file.get(), kBytes - 1, SEEK_SET));
  CHECK(lh::position(file.get()) == kBytes - 1);
  CHECK_FALSE(lh::seek(file.get(), -1, SEEK_SET));
}
