// The shim's constraints for benchmarks/grammars.py: starts one, computes its masks and
// accepts tokens. Each function stores the CPU seconds that it took in `seconds`; where
// something fails it returns null or -1 and writes the reason to `why`.
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>

#include "grammar_matcher.hpp"
#include "guard.hpp"
#include "llguidance.hpp"
#include "prepared.hpp"

namespace {

constexpr size_t kReason = 512;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Body>
auto timed(double* seconds, char* why, Body&& body) -> decltype(body()) {
  const double start = cpu_seconds();
  decltype(body()) result{};
  try {
    result = body();
    why[0] = '\0';
  } catch (const std::exception& error) {
    std::snprintf(why, kReason, "%s", error.what());
  }
  *seconds = cpu_seconds() - start;
  return result;
}

}  // namespace

extern "C" {

#define EXPORT __attribute__((visibility("default")))

EXPORT void* grammars_model(const char* path, char* why) {
  double seconds = 0;
  return timed(&seconds, why, [&] {
    lh_model_params params;
    lh_model_default_params(&params);
    params.vocab_only = 1;
    return lh_model::load(path, params).release();
  });
}

EXPORT int32_t grammars_n_vocab(const lh_model* model) { return model->n_vocab(); }
EXPORT int32_t grammars_end(const lh_model* model) { return model->eog_tokens().front(); }
EXPORT int32_t grammars_is_end(const lh_model* model, int32_t token) {
  return model->is_eog(token) ? 1 : 0;
}

EXPORT void grammars_llguidance(const lh_llguidance* functions, char* why) {
  double seconds = 0;
  timed(&seconds, why, [&] {
    lh::set_llguidance(*functions);
    return 0;
  });
}

// Compiles the text anew, finds what must come first, and copies that as for a prompt.
EXPORT void* grammars_start(const lh_model* model, int32_t kind, const char* text,
                            double* seconds, char* why) {
  return timed(seconds, why, [&] {
    lh_sampling_params params{};
    params.grammar_kind = kind;
    params.grammar = text;
    return lh::PreparedConstraints(*model).constraint(params)->copy().release();
  });
}

EXPORT void* grammars_copy(const lh::Constraint* constraint, double* seconds, char* why) {
  return timed(seconds, why, [&] { return constraint->copy().release(); });
}

EXPORT void grammars_free(lh::Constraint* constraint) {
  std::unique_ptr<lh::Constraint>(constraint).reset();
}

// Writes 1 to allowed[token] for each token that may come; returns their number.
EXPORT int32_t grammars_mask(lh::Constraint* constraint, uint8_t* allowed,
                             double* seconds, char* why) {
  return timed(seconds, why, [&] {
    const std::vector<int32_t> tokens = constraint->allowed_tokens();
    for (const int32_t token : tokens) allowed[token] = 1;
    return static_cast<int32_t>(tokens.size());
  });
}

// What a greedy step asks first: is this one token allowed?
EXPORT int32_t grammars_allows(lh::Constraint* constraint, int32_t token, double* seconds,
                               char* why) {
  return timed(seconds, why, [&] {
    constraint->prepare();
    return constraint->allows(token) ? 1 : 0;
  });
}

EXPORT int32_t grammars_forced(lh::Constraint* constraint, int32_t* tokens, int32_t most,
                               double* seconds, char* why) {
  return timed(seconds, why, [&] {
    int32_t n = 0;
    for (const int32_t token : constraint->forced_tokens()) {
      if (n < most) tokens[n++] = token;
    }
    return n;
  });
}

EXPORT int32_t grammars_accept(lh::Constraint* constraint, int32_t token, double* seconds,
                               char* why) {
  return timed(seconds, why, [&] {
    constraint->accept(token);
    return 0;
  });
}

}  // extern "C"
