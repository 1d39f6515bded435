#include "amx.hpp"

#if defined(__linux__)
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "cpu_backend.hpp"
#include "ggml-cpp.h"
#include "guard.hpp"

namespace lh {
namespace {

constexpr unsigned kTimeoutSeconds = 10;

[[noreturn]] void run_child(const std::function<void()>& body) {
  // Restores default actions, because R, Python and sanitizers would print reports for
  // these signals. No core file is needed.
  for (const int number : {SIGALRM, SIGBUS, SIGILL, SIGSEGV}) signal(number, SIG_DFL);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  // Locks that another thread of the parent had locked remain locked in the child.
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  sigprocmask(SIG_UNBLOCK, &alarm_only, nullptr);
  alarm(kTimeoutSeconds);
  body();
  _exit(0);
}

// Returns the layout of weights for AMX; null if ggml has none.
ggml_backend_buffer_type_t amx_layout(ggml_backend_dev_t cpu) {
  const auto extra_layouts = cpu_function<ggml_backend_dev_get_extra_bufts_t>(
      cpu, "ggml_backend_dev_get_extra_bufts");
  if (extra_layouts == nullptr) return nullptr;
  for (ggml_backend_buffer_type_t* layout = extra_layouts(cpu); *layout; ++layout) {
    if (std::strcmp(ggml_backend_buft_name(*layout), "AMX") == 0) return *layout;
  }
  return nullptr;
}

ggml_context_ptr tensors(size_t n, size_t more_bytes) {
  ggml_context_ptr context(
      ggml_init({n * ggml_tensor_overhead() + more_bytes, nullptr, true}));
  if (context == nullptr) throw std::bad_alloc();
  return context;
}

bool survives_amx() {
  const ggml_backend_dev_t cpu = cpu_device();
  const ggml_backend_buffer_type_t layout = amx_layout(cpu);
  if (layout == nullptr) return true;
  const ggml_backend_ptr backend(ggml_backend_dev_init(cpu, nullptr));
  const auto set_n_threads =
      cpu_function<ggml_backend_set_n_threads_t>(cpu, "ggml_backend_set_n_threads");
  if (backend == nullptr || set_n_threads == nullptr) throw std::bad_alloc();
  set_n_threads(backend.get(), 1);

  constexpr int64_t kSize = 64;
  constexpr int64_t kRows = 2;  // a single row is multiplied without AMX
  const ggml_context_ptr fixed = tensors(1, 0);
  ggml_tensor* weights = ggml_new_tensor_2d(fixed.get(), GGML_TYPE_Q8_0, kSize, kSize);
  const ggml_backend_buffer_ptr fixed_data(
      ggml_backend_alloc_ctx_tensors_from_buft(fixed.get(), layout));
  const ggml_context_ptr rest = tensors(2, ggml_graph_overhead());
  ggml_tensor* rows = ggml_new_tensor_2d(rest.get(), GGML_TYPE_F32, kSize, kRows);
  ggml_cgraph* graph = ggml_new_graph(rest.get());
  ggml_build_forward_expand(graph, ggml_mul_mat(rest.get(), weights, rows));
  const ggml_backend_buffer_ptr rest_data(
      ggml_backend_alloc_ctx_tensors(rest.get(), backend.get()));
  if (fixed_data == nullptr || rest_data == nullptr) throw std::bad_alloc();
  ggml_backend_buffer_clear(fixed_data.get(), 0);
  ggml_backend_buffer_clear(rest_data.get(), 0);
  return child_survives([&] { ggml_backend_graph_compute(backend.get(), graph); });
}

}  // namespace

bool has_amx() { return amx_layout(cpu_device()) != nullptr; }

bool amx_computes(int32_t n_embd) {
  constexpr int32_t kBlock = 32;  // numbers of a block of a quantized row
  return n_embd > kBlock || !has_amx();
}

bool child_survives(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid == 0) run_child(body);
  if (pid < 0) return true;
  int status = 0;
  pid_t ended = 0;
  do {
    ended = waitpid(pid, &status, 0);
  } while (ended < 0 && errno == EINTR);
  return ended < 0 || !WIFSIGNALED(status) || WTERMSIG(status) == SIGALRM;
}

void check_amx() {
  static const bool survives = survives_amx();
  if (survives) return;
  throw Error(
      LH_MODEL_ERROR,
      "llama-cpp-python was compiled by a GCC that breaks this processor's AMX "
      "instructions (GCC's bug 114098): the first computation would end the "
      "process. Compile it anew: CXXFLAGS='-fno-dse -U__AVX512FP16__' pip install "
      "--force-reinstall --no-cache-dir --no-deps "
      "llama-cpp-python==" LH_LLAMA_CPP_PYTHON_VERSION);
}

}  // namespace lh

#else

namespace lh {

bool has_amx() { return false; }
bool amx_computes(int32_t) { return true; }
bool child_survives(const std::function<void()>&) { return true; }
void check_amx() {}

}  // namespace lh

#endif
