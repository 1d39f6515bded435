// Functions of the operating system for the teams of threads.hpp: Linux and Windows.
#pragma once

#include <atomic>
#include <cstdint>

#if defined(__linux__)
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#elif defined(_WIN32)
#include <windows.h>
#endif

namespace lh {

#if defined(__linux__)

// Tells the processor that this thread polls.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");
#endif
}

inline void futex(std::atomic<uint32_t>& value, int operation,
                  uint32_t argument) noexcept {
  static_assert(sizeof value == sizeof(uint32_t));
  syscall(SYS_futex, &value, operation, argument, nullptr, nullptr, 0);
}

// Sleeps until wake_all is called. Returns at once if the value is no longer `old`, and
// may return early.
inline void sleep_on(std::atomic<uint32_t>& value, uint32_t old) noexcept {
  futex(value, FUTEX_WAIT_PRIVATE, old);
}

inline void wake_all(std::atomic<uint32_t>& value) noexcept {
  futex(value, FUTEX_WAKE_PRIVATE, INT32_MAX);
}

// Calls run() in each forked child. Returns whether this is possible.
inline bool call_in_forked_child(void (*run)()) {
  return pthread_atfork(nullptr, nullptr, run) == 0;
}

#elif defined(_WIN32)

inline void relax() noexcept { YieldProcessor(); }

inline void sleep_on(std::atomic<uint32_t>& value, uint32_t old) noexcept {
  WaitOnAddress(&value, &old, sizeof old, INFINITE);
}

inline void wake_all(std::atomic<uint32_t>& value) noexcept { WakeByAddressAll(&value); }

inline bool call_in_forked_child(void (*)()) { return false; }  // Windows has no fork

#endif

// One pointer per thread, null at first. Not thread_local: a library that is loaded late
// allocates such a variable when a thread first accesses it, and the process ends if that
// allocation fails.
class ThreadPointer {
 public:
#if defined(__linux__)
  bool is_made() const noexcept { return is_made_; }
  void* get() const noexcept { return pthread_getspecific(key_); }
  void set(void* value) const noexcept { pthread_setspecific(key_, value); }

 private:
  pthread_key_t key_{};
  bool is_made_ = pthread_key_create(&key_, nullptr) == 0;
#elif defined(_WIN32)
  bool is_made() const noexcept { return key_ != TLS_OUT_OF_INDEXES; }
  void* get() const noexcept { return TlsGetValue(key_); }
  void set(void* value) const noexcept { TlsSetValue(key_, value); }

 private:
  DWORD key_ = TlsAlloc();
#endif
};

// Blocks signals, which are meant for the threads of the program. Faults are still
// delivered to the thread that causes them. Windows delivers Ctrl-C to a thread of its
// own.
class SignalsBlocked {
 public:
#if defined(__linux__)
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int number : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP}) {
      sigdelset(&all, number);
    }
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
#else
  SignalsBlocked() {}  // NOLINT(modernize-use-equals-default): a variable that is used
#endif
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

#if defined(__linux__)
 private:
  sigset_t before_{};
#endif
};

}  // namespace lh
