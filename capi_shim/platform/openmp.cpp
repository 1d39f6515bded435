#include "openmp.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <thread>
#include <vector>

#include "cpu_backend.hpp"
#include "ggml-cpu.h"
#include "imports.hpp"
#include "threads.hpp"

#if defined(__linux__)
// libgomp's own functions; null without libgomp.
extern "C" {
[[gnu::weak]] void GOMP_barrier();
[[gnu::weak]] bool GOMP_single_start();
[[gnu::weak]] int omp_get_thread_num();
[[gnu::weak]] int omp_get_num_threads();
}
#endif

namespace lh {
namespace {

// libgomp's own functions, for threads that run its work; null without libgomp.
struct Libgomp {
  void (*barrier)() = nullptr;
  bool (*single_start)() = nullptr;
  int (*thread_num)() = nullptr;
  int (*num_threads)() = nullptr;
};
#if defined(__linux__)
Libgomp libgomp{GOMP_barrier, GOMP_single_start, omp_get_thread_num, omp_get_num_threads};
#else
Libgomp libgomp;
#endif

// ---- replacements of libgomp's functions -----------------------------------------

// n_threads 0: number of processors.
void parallel(void (*run)(void*), void* data, unsigned n_threads, unsigned /*flags*/) {
  if (n_threads == 0) n_threads = std::max(1U, std::thread::hardware_concurrency());
  run_team(run, data, static_cast<int32_t>(n_threads));
}

void barrier() {
  if (team_place() != nullptr) {
    team_barrier();
  } else if (libgomp.barrier != nullptr) {
    libgomp.barrier();
  }
}

bool single_start() {
  if (team_place() != nullptr) return team_single();
  return libgomp.single_start == nullptr || libgomp.single_start();
}

int thread_num() {
  if (const Place* place = team_place()) return place->i_thread;
  return libgomp.thread_num == nullptr ? 0 : libgomp.thread_num();
}

int num_threads() {
  if (const Place* place = team_place()) return place->n_threads;
  return libgomp.num_threads == nullptr ? 1 : libgomp.num_threads();
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

void* ours(std::string_view name) {
  for (const Function& function : kFunctions) {
    if (function.name == name) return function.ours;
  }
  return nullptr;
}

bool is_openmp(const Import& import) {
  for (const std::string_view start : {"GOMP_", "omp_", "__kmpc_"}) {
    if (import.name.substr(0, start.size()) == start) return true;
  }
  return false;
}

#if defined(_WIN32)
template <class Address>
void remember(Address& function, const Import& import, std::string_view name) {
  if (import.name == name) function = reinterpret_cast<Address>(*import.slot);
}

// Windows fills all slots when it loads a library. On Linux a slot may be filled at the
// first call, so the addresses in `libgomp` are those of the weak symbols.
void remember(const Import& import) {
  remember(libgomp.barrier, import, "GOMP_barrier");
  remember(libgomp.single_start, import, "GOMP_single_start");
  remember(libgomp.thread_num, import, "omp_get_thread_num");
  remember(libgomp.num_threads, import, "omp_get_num_threads");
}
#endif

bool redirect() {
  const auto inside =
      cpu_function<decltype(&ggml_threadpool_new)>(cpu_device(), "ggml_threadpool_new");
  if (inside == nullptr || !can_make_teams()) return false;
  std::vector<Import> imports = imports_of(reinterpret_cast<const void*>(inside));
  imports.erase(std::partition(imports.begin(), imports.end(), is_openmp), imports.end());
  // Replaces all functions or none, because libgomp does not know llamaherd's threads.
  const auto is_known = [](const Import& import) { return ours(import.name) != nullptr; };
  if (imports.size() < kFunctions.size() ||
      !std::all_of(imports.begin(), imports.end(), is_known)) {
    return false;
  }
  // The function that starts a team is replaced last. On threads outside such a team, the
  // other functions still call libgomp's.
  std::partition(imports.begin(), imports.end(),
                 [](const Import& import) { return import.name != kFunctions[0].name; });
#if defined(_WIN32)
  std::for_each(imports.begin(), imports.end(),
                [](const Import& import) { remember(import); });
#endif
  return std::all_of(imports.begin(), imports.end(), [](const Import& import) {
    return replace(import, ours(import.name));
  });
}

}  // namespace

bool own_threads() {
  static const bool redirected = redirect();
  return redirected;
}

}  // namespace lh
