// An engine on the toy model. At the end, checks that no rule of libllama was violated.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "toy.hpp"

struct Fixture {
  explicit Fixture(int32_t n_ctx = 256, int32_t n_seq_max = 4, bool unified = true,
                   bool recurrent = false)
      : model((fake::reset(), fake::settings().recurrent = recurrent, toy::model())),
        engine(*model, toy::engine_params(n_ctx, n_seq_max, unified)) {}
  ~Fixture() { CHECK(fake::counts().n_violations == 0); }

  // Returns the final text, including NULs, which the toy generates.
  std::string text(int64_t id) {
    const lh_client_info info = engine.get(id);
    return {info.text, static_cast<size_t>(info.n_text)};
  }

  std::unique_ptr<lh_model> model;
  lh_engine engine;
};

inline const std::vector<int32_t> kHello = toy::tokens("hello");
