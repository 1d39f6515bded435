// A disk that fails on demand, for tests only: a library that is loaded before all others
// (LD_PRELOAD). It counts the calls that change files in one folder. At the chosen call
// it ends the process, lets the call fail, or writes only half of the data. No other code
// uses this library.
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#define DISK_API extern "C" __attribute__((visibility("default")))

namespace {

enum class Action : int32_t {
  kNone = 0,
  kEnd = 1,       // the process ends before the call, of any kind
  kTear = 2,      // the process ends when half of the data is written
  kFull = 3,      // this write and all later writes fail: ENOSPC
  kFullOnce = 4,  // this write fails after half of its data
  kShort = 5,     // from this write on, half of the data is written
  kFailSync = 6   // this sync fails: EIO
};

enum class Kind : int32_t { kWrite, kSync, kOther };

constexpr int kEnded = 42;  // exit status of the process

std::string folder;
Action action = Action::kNone;
int64_t strike_at = -1;
int64_t n_calls = 0;

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool is_inside(const char* path) {
  if (folder.empty() || path == nullptr) return false;
  return strncmp(path, folder.c_str(), folder.size()) == 0;
}

bool is_inside(int fd) {
  if (folder.empty()) return false;
  char link[64];
  char path[PATH_MAX + 1];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, PATH_MAX);
  if (length < 0) return false;
  path[length] = '\0';
  return is_inside(path);
}

// Counts a call if the action applies to calls of its kind, and returns what must happen.
Action struck(Kind kind) {
  const Kind wanted = action == Action::kFailSync ? Kind::kSync : Kind::kWrite;
  if (action != Action::kEnd && kind != wanted) return Action::kNone;
  const int64_t i = n_calls++;
  if (i < strike_at) return Action::kNone;
  const bool goes_on = action == Action::kFull || action == Action::kShort;
  if (i > strike_at && !goes_on) return Action::kNone;
  if (action == Action::kEnd) _exit(kEnded);
  return action;
}

// Handles all writes to files. `real` is the real function, called with the number of
// bytes to write.
template <typename Write>
ssize_t written(int fd, size_t count, Write write) {
  if (!is_inside(fd)) return write(count);
  const size_t half = count / 2;
  switch (struck(Kind::kWrite)) {
    case Action::kTear:
      if (half > 0) write(half);
      _exit(kEnded);
    case Action::kFull:
      errno = ENOSPC;
      return -1;
    case Action::kFullOnce:
      if (half > 0) write(half);
      errno = ENOSPC;
      return -1;
    case Action::kShort:
      return write(half > 0 ? half : count);
    default:
      return write(count);
  }
}

template <typename Change>
int changed(bool inside, Change change) {
  if (inside) struck(Kind::kOther);
  return change();
}

template <typename Sync>
int synced(int fd, Sync sync) {
  if (is_inside(fd) && struck(Kind::kSync) == Action::kFailSync) {
    errno = EIO;
    return -1;
  }
  return sync();
}

}  // namespace

// Counts from now on the calls to which `what` applies, for files whose path begins with
// `prefix`.
DISK_API void disk_arm(const char* prefix, int32_t what, int64_t at) {
  action = static_cast<Action>(what);
  strike_at = at;
  n_calls = 0;
  folder = prefix;
}

// Returns the number of counted calls.
DISK_API int64_t disk_disarm() {
  folder.clear();
  return n_calls;
}

DISK_API ssize_t write(int fd, const void* data, size_t count) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  return written(fd, count, [&](size_t n) { return real(fd, data, n); });
}

DISK_API ssize_t pwrite(int fd, const void* data, size_t count, off_t at) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  return written(fd, count, [&](size_t n) { return real(fd, data, n, at); });
}

DISK_API ssize_t pwrite64(int fd, const void* data, size_t count, off64_t at) {
  static const auto real =
      next<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64");
  return written(fd, count, [&](size_t n) { return real(fd, data, n, at); });
}

DISK_API int ftruncate(int fd, off_t size) noexcept {
  static const auto real = next<int (*)(int, off_t)>("ftruncate");
  return changed(is_inside(fd), [&] { return real(fd, size); });
}

DISK_API int ftruncate64(int fd, off64_t size) noexcept {
  static const auto real = next<int (*)(int, off64_t)>("ftruncate64");
  return changed(is_inside(fd), [&] { return real(fd, size); });
}

DISK_API int fsync(int fd) {
  static const auto real = next<int (*)(int)>("fsync");
  return synced(fd, [&] { return real(fd); });
}

DISK_API int fdatasync(int fd) {
  static const auto real = next<int (*)(int)>("fdatasync");
  return synced(fd, [&] { return real(fd); });
}

DISK_API int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  return changed(is_inside(from), [&] { return real(from, to); });
}

DISK_API int link(const char* from, const char* to) noexcept {
  static const auto real = next<int (*)(const char*, const char*)>("link");
  return changed(is_inside(from), [&] { return real(from, to); });
}

// Later versions of Python call these two functions for os.link and os.unlink.
DISK_API int linkat(int from_fd, const char* from, int to_fd, const char* to,
                    int flags) noexcept {
  static const auto real =
      next<int (*)(int, const char*, int, const char*, int)>("linkat");
  return changed(is_inside(from), [&] { return real(from_fd, from, to_fd, to, flags); });
}

DISK_API int unlinkat(int fd, const char* path, int flags) noexcept {
  static const auto real = next<int (*)(int, const char*, int)>("unlinkat");
  return changed(is_inside(path), [&] { return real(fd, path, flags); });
}

DISK_API int unlink(const char* path) noexcept {
  static const auto real = next<int (*)(const char*)>("unlink");
  return changed(is_inside(path), [&] { return real(path); });
}
