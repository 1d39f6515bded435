// An engine on the toy model. At the end, checks that no rule of libllama was violated.
#pragma once

#include <doctest/doctest.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "allocations.hpp"
#include "guard.hpp"
#include "toy.hpp"

struct Fixture {
  explicit Fixture(int32_t n_ctx = 256, int32_t n_seq_max = 4, bool unified = true,
                   bool recurrent = false)
      : Fixture(toy::engine_params(n_ctx, n_seq_max, unified), recurrent) {}
  explicit Fixture(const lh_engine_params& params, bool recurrent = false)
      : model((fake::reset(), fake::settings().recurrent = recurrent, toy::model())),
        engine(*model, params) {}
  ~Fixture() { CHECK(fake::counts().n_violations == 0); }

  // Returns the final text, including NULs, which the toy generates.
  std::string text(int64_t id) {
    const lh_client_info info = engine.get(id);
    return {info.text, static_cast<size_t>(info.n_text)};
  }

  std::unique_ptr<lh_model> model;
  lh_engine engine;
};

// A Fixture whose toy model never ends an answer.
struct Endless : Fixture {
  template <class... Options>
  explicit Endless(Options... options) : Fixture(options...) {
    fake::settings().eos_share = 0;
  }
};

// An Endless whose engine is deterministic.
struct Deterministic : Endless {
  explicit Deterministic(const lh_engine_params& params) : Endless(params) {
    fake::settings().uniform_rows = lh::kUniformRows;
  }
  Deterministic(int32_t n_ctx_seq, int32_t n_seq)
      : Deterministic(toy::deterministic_params(n_ctx_seq, n_seq)) {}
};

// Returns prompts that differ from each other, of different lengths.
inline std::vector<int32_t> distinct_prompt(int64_t id) {
  return toy::tokens("0123456789" + std::string(static_cast<size_t>(id) + 1, 'x'));
}

// Returns the code of the error that `call` throws, or LH_OK.
inline lh_status code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const lh::Error& e) {
    return e.code();
  }
  return LH_OK;
}

// Calls `run` with n = 1, 1 + stride, ... until allocation number n of `act` does not
// happen. Twice: only this allocation fails, or all later ones of `act`, too. Returns the
// last n with a failure.
template <class Run>
int64_t for_each_allocation(Run&& run, int64_t stride = 1) {
  for (int64_t n = 1;; n += stride) {
    bool has_failed = false;
    for (const int64_t last : {n, INT64_MAX}) {
      INFO("allocations that fail: ", n, " to ", last);
      const auto without_memory = [&](const std::function<void()>& act) {
        const allocations::Failing failing(n, last);
        try {
          act();
        } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
        }
        has_failed = failing.has_failed();
      };
      run(without_memory, last == n);
    }
    if (!has_failed) return n - stride;
  }
}

// Returns tokens followed by those of a text.
inline std::vector<int32_t> operator+(std::vector<int32_t> a, const std::string& b) {
  const auto tokens = toy::tokens(b);
  a.insert(a.end(), tokens.begin(), tokens.end());
  return a;
}

inline const std::vector<int32_t> kHello = toy::tokens("hello");
