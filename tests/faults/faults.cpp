// Faults on demand, for tests only: a library that is loaded before all others
// (LD_PRELOAD). It replaces functions of libllama and operator new. It calls the original
// functions, except at the calls that a test has chosen by fault_arm, where the fault
// occurs. No other code uses this library.
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "llama.h"
#include "llamaherd.h"

#define FAULT_API extern "C" __attribute__((visibility("default")))

namespace {

enum class Action : int32_t {
  kNone = 0,
  kReturn = 1,       // returns `value` or NULL without a call
  kThrow = 2,        // throws std::runtime_error
  kThrowOther = 3,   // throws an int
  kThrowMemory = 4,  // throws std::bad_alloc
  kAfter = 5,        // calls the function, then returns `value`
  kNan = 6,          // all logits become NaN
  kInfinity = 7      // all logits become +Inf
};

// Fault to inject. `function` names a group of functions, see the calls of `strikes`.
struct Fault {
  std::string function;
  Action action = Action::kNone;
  int32_t value = 0;
  int64_t first = 0;   // calls before the fault
  int64_t times = 1;   // calls with the fault
  int32_t token = -1;  // >= 0: count only batches with this token
};

Fault armed;
std::atomic<bool> is_armed{false};
std::atomic<int64_t> n_calls{0};
std::atomic<int64_t> n_struck{0};

// Called before the given llama_decode, in the first thread that reaches it.
using Hook = void (*)();
std::atomic<Hook> hook{nullptr};
std::atomic<int64_t> hook_at{-1};
std::atomic<int64_t> n_decodes{0};

thread_local int32_t shim_depth = 0;      // depth inside functions of llamaherd.h
thread_local int32_t library_depth = 0;   // depth inside llama_decode
thread_local int32_t copy_depth = 0;      // inside llama_memory_seq_cp
thread_local std::vector<bool> hit_rows;  // of the last batch: rows with `token`
thread_local std::vector<float> row;

class Depth {
 public:
  explicit Depth(int32_t& depth) : depth_(depth) { ++depth_; }
  ~Depth() { --depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  int32_t& depth_;
};

void* library(const char* name) {
  struct Search {
    const char* name;
    std::string path;
  } search{name, ""};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* wanted = static_cast<Search*>(data);
        const char* slash = std::strrchr(info->dlpi_name, '/');
        const char* base = slash == nullptr ? info->dlpi_name : slash + 1;
        if (std::strncmp(base, wanted->name, std::strlen(wanted->name)) != 0) return 0;
        wanted->path = info->dlpi_name;
        return 1;
      },
      &search);
  return search.path.empty() ? nullptr
                             : dlopen(search.path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
}

// Returns the original function, from the library that defines it.
template <class Function>
Function* real(const char* from, const char* name) {
  void* handle = library(from);
  void* symbol = handle == nullptr ? nullptr : dlsym(handle, name);
  if (symbol == nullptr) std::abort();
  return reinterpret_cast<Function*>(symbol);
}

bool strikes_now() {
  const int64_t i = n_calls.fetch_add(1);
  if (i < armed.first || i >= armed.first + armed.times) return false;
  n_struck.fetch_add(1);
  return true;
}

bool strikes(const char* function) {
  return is_armed.load() && shim_depth > 0 && armed.function == function && strikes_now();
}

void throw_armed() {
  if (armed.action == Action::kThrow) throw std::runtime_error("an injected exception");
  if (armed.action == Action::kThrowOther) throw 42;
  if (armed.action == Action::kThrowMemory) throw std::bad_alloc();
}

// Returns the rows of the batch whose sequence contains the token of the fault.
bool find_hit_rows(const llama_batch& batch) {
  std::set<int32_t> sequences;
  for (int32_t i = 0; i < batch.n_tokens; ++i) {
    if (armed.token < 0 || batch.token[i] == armed.token) {
      sequences.insert(batch.seq_id[i][0]);
    }
  }
  hit_rows.assign(static_cast<size_t>(batch.n_tokens), false);
  for (int32_t i = 0; i < batch.n_tokens; ++i) {
    hit_rows[static_cast<size_t>(i)] = sequences.count(batch.seq_id[i][0]) != 0;
  }
  return !sequences.empty();
}

}  // namespace

#define LLAMA(name)                                                               \
  ([]() -> decltype(name)& {                                                      \
    static decltype(name)* function = real<decltype(name)>("libllama.so", #name); \
    return *function;                                                             \
  }())
#define SHIM(name)                                                                    \
  ([]() -> decltype(name)& {                                                          \
    static decltype(name)* function = real<decltype(name)>("libllamaherd.so", #name); \
    return *function;                                                                 \
  }())

// ---- what tests call ----------------------------------------------------------------

FAULT_API void fault_arm(const char* function, int32_t action, int32_t value,
                         int64_t first, int64_t times, int32_t token) {
  is_armed = false;
  armed = {function, static_cast<Action>(action), value, first, times, token};
  n_calls = 0;
  n_struck = 0;
  n_decodes = 0;
  is_armed = true;
}

FAULT_API void fault_hook(void (*function)(), int64_t i_decode) {
  n_decodes = 0;
  hook_at = i_decode;
  hook = function;
}

// Returns the number of calls at which the fault occurred.
FAULT_API int64_t fault_disarm() {
  is_armed = false;
  hook = nullptr;
  return n_struck.load();
}

FAULT_API int64_t fault_decodes() { return n_decodes.load(); }

// ---- llamaherd.h: records the callers of allocations and of libllama ----------------

#define WITHIN_SHIM(name, parameters, arguments) \
  FAULT_API int32_t name parameters {            \
    const Depth depth(shim_depth);               \
    return SHIM(name) arguments;                 \
  }

WITHIN_SHIM(lh_engine_new,
            (lh_model * model, const lh_engine_params* params, lh_engine** out,
             lh_error* error),
            (model, params, out, error))
WITHIN_SHIM(lh_engine_submit,
            (lh_engine * engine, const lh_request* request, lh_error* error),
            (engine, request, error))
WITHIN_SHIM(lh_engine_run,
            (lh_engine * engine, const lh_run_params* params, int64_t* events,
             int32_t capacity, lh_run_result* result, lh_error* error),
            (engine, params, events, capacity, result, error))
WITHIN_SHIM(lh_client_pause, (lh_engine * engine, int64_t id, lh_error* error),
            (engine, id, error))
WITHIN_SHIM(lh_client_resume, (lh_engine * engine, int64_t id, lh_error* error),
            (engine, id, error))
WITHIN_SHIM(lh_client_end,
            (lh_engine * engine, int64_t id, int32_t reason, const char* message,
             lh_error* error),
            (engine, id, reason, message, error))
WITHIN_SHIM(lh_client_release, (lh_engine * engine, int64_t id, lh_error* error),
            (engine, id, error))
WITHIN_SHIM(lh_tokenize_prompt,
            (const lh_model* model, const char* text, int32_t n_text,
             int32_t parse_special, int32_t* tokens, int32_t capacity, int32_t* n_tokens,
             lh_error* error),
            (model, text, n_text, parse_special, tokens, capacity, n_tokens, error))

// ---- llguidance, whose functions the shim receives as addresses --------------------

namespace {

lh_llguidance given{};

template <class Function>
Function* function_at(const void* address) {
  Function* function = nullptr;
  std::memcpy(&function, &address, sizeof(function));
  return function;
}

template <class Function>
const void* address_of(Function* function) {
  const void* address = nullptr;
  std::memcpy(&address, &function, sizeof(function));
  return address;
}

int32_t compute_mask(void* matcher, uint32_t* mask, size_t n_bytes) {
  if (strikes("llg_matcher_compute_mask_into")) return -1;
  return function_at<decltype(compute_mask)>(given.matcher_compute_mask_into)(
      matcher, mask, n_bytes);
}

int32_t consume_tokens(void* matcher, const uint32_t* tokens, size_t n) {
  if (strikes("llg_matcher_consume_tokens")) return -1;
  return function_at<decltype(consume_tokens)>(given.matcher_consume_tokens)(matcher,
                                                                             tokens, n);
}

int32_t compute_ff_tokens(void* matcher, uint32_t* tokens, size_t capacity) {
  if (strikes("llg_matcher_compute_ff_tokens")) return -1;
  return function_at<decltype(compute_ff_tokens)>(given.matcher_compute_ff_tokens)(
      matcher, tokens, capacity);
}

void* clone_matcher(const void* matcher) {
  if (strikes("llg_clone_matcher")) return nullptr;
  return function_at<decltype(clone_matcher)>(given.clone_matcher)(matcher);
}

}  // namespace

FAULT_API int32_t lh_set_llguidance(const lh_llguidance* functions, lh_error* error) {
  given = *functions;
  lh_llguidance ours = given;
  ours.matcher_compute_mask_into = address_of(compute_mask);
  ours.matcher_consume_tokens = address_of(consume_tokens);
  ours.matcher_compute_ff_tokens = address_of(compute_ff_tokens);
  ours.clone_matcher = address_of(clone_matcher);
  return SHIM(lh_set_llguidance)(&ours, error);
}

// ---- allocation -----------------------------------------------------------------------

// No fault inside llama_memory_seq_cp, from which libllama cannot recover. The shim
// checks before this call that enough memory is available.
void* operator new(size_t size) {
  if (is_armed.load(std::memory_order_relaxed) && shim_depth > 0 && copy_depth == 0) {
    const char* scope = library_depth > 0 ? "new in llama_decode" : "new";
    if (armed.function == scope && strikes_now()) throw std::bad_alloc();
  }
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// ---- libllama -------------------------------------------------------------------------

FAULT_API int32_t llama_decode(llama_context* ctx, llama_batch batch) {
  const Hook function = hook.load();
  if (n_decodes.fetch_add(1) == hook_at.load() && function != nullptr) function();
  if (is_armed.load() && find_hit_rows(batch) && strikes("llama_decode")) {
    throw_armed();
    if (armed.action == Action::kAfter) LLAMA(llama_decode)(ctx, batch);
    return armed.value;
  }
  const Depth depth(library_depth);
  return LLAMA(llama_decode)(ctx, batch);
}

FAULT_API float* llama_get_logits_ith(llama_context* ctx, int32_t i) {
  float* logits = LLAMA(llama_get_logits_ith)(ctx, i);
  const auto at = static_cast<size_t>(i);
  if (!is_armed.load() || at >= hit_rows.size() || !hit_rows[at]) return logits;
  if (!strikes("llama_get_logits_ith")) return logits;
  throw_armed();
  if (armed.action == Action::kReturn) return nullptr;
  const float value = armed.action == Action::kNan
                          ? std::numeric_limits<float>::quiet_NaN()
                          : std::numeric_limits<float>::infinity();
  const auto* vocab = LLAMA(llama_model_get_vocab)(LLAMA(llama_get_model)(ctx));
  row.assign(static_cast<size_t>(LLAMA(llama_vocab_n_tokens)(vocab)), value);
  return row.data();
}

FAULT_API llama_context* llama_init_from_model(llama_model* model,
                                               llama_context_params params) {
  if (strikes("llama_init_from_model")) {
    throw_armed();
    return nullptr;
  }
  return LLAMA(llama_init_from_model)(model, params);
}

FAULT_API int32_t llama_tokenize(const llama_vocab* vocab, const char* text,
                                 int32_t text_len, llama_token* tokens,
                                 int32_t n_tokens_max, bool add_special,
                                 bool parse_special) {
  if (strikes("llama_tokenize")) {
    throw_armed();
    return armed.value;
  }
  return LLAMA(llama_tokenize)(vocab, text, text_len, tokens, n_tokens_max, add_special,
                               parse_special);
}

FAULT_API bool llama_memory_seq_rm(llama_memory_t memory, llama_seq_id seq_id,
                                   llama_pos p0, llama_pos p1) {
  if (strikes("llama_memory_seq_rm")) {
    throw_armed();
    return false;
  }
  return LLAMA(llama_memory_seq_rm)(memory, seq_id, p0, p1);
}

FAULT_API void llama_memory_seq_cp(llama_memory_t memory, llama_seq_id from,
                                   llama_seq_id to, llama_pos p0, llama_pos p1) {
  if (strikes("llama_memory_seq_cp")) {
    throw_armed();
    return;
  }
  const Depth depth(copy_depth);
  LLAMA(llama_memory_seq_cp)(memory, from, to, p0, p1);
}

FAULT_API size_t llama_state_seq_get_data(llama_context* ctx, uint8_t* to, size_t size,
                                          llama_seq_id seq_id) {
  if (strikes("llama_state_seq_get_data")) {
    throw_armed();
    return 0;
  }
  return LLAMA(llama_state_seq_get_data)(ctx, to, size, seq_id);
}

FAULT_API size_t llama_state_seq_set_data(llama_context* ctx, const uint8_t* from,
                                          size_t size, llama_seq_id seq_id) {
  if (strikes("llama_state_seq_set_data")) {
    throw_armed();
    return 0;
  }
  return LLAMA(llama_state_seq_set_data)(ctx, from, size, seq_id);
}

// ---- samplers -------------------------------------------------------------------------

#define SAMPLER(name, parameters, arguments) \
  FAULT_API llama_sampler* name parameters { \
    if (strikes("llama_sampler_init")) {     \
      throw_armed();                         \
      return nullptr;                        \
    }                                        \
    return LLAMA(name) arguments;            \
  }

SAMPLER(llama_sampler_chain_init, (llama_sampler_chain_params params), (params))
SAMPLER(llama_sampler_init_temp, (float t), (t))
SAMPLER(llama_sampler_init_dist, (uint32_t seed), (seed))
SAMPLER(llama_sampler_init_top_k, (int32_t k), (k))
SAMPLER(llama_sampler_init_top_p, (float p, size_t keep), (p, keep))
SAMPLER(llama_sampler_init_min_p, (float p, size_t keep), (p, keep))

FAULT_API void llama_sampler_apply(llama_sampler* sampler,
                                   llama_token_data_array* candidates) {
  if (strikes("llama_sampler_apply")) throw_armed();
  LLAMA(llama_sampler_apply)(sampler, candidates);
}
