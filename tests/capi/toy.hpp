// Functions that use the toy model of fake_llama.hpp with the types of the shim.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "allocations.hpp"
#include "batch_builder.hpp"
#include "engine.hpp"
#include "fake_llama.hpp"
#include "model.hpp"
#include "round_up.hpp"

namespace toy {

inline std::unique_ptr<lh_model> model() {
  lh_model_params params{};
  return lh_model::load(fake::kModelPath, params);
}

inline lh_engine_params engine_params(int32_t n_ctx, int32_t n_seq_max, bool unified,
                                      int32_t n_batch = 32, int32_t n_ubatch = 32) {
  lh_engine_params params;
  lh_engine_default_params(&params);
  params.n_ctx = n_ctx;
  params.n_seq_max = n_seq_max;
  params.kv_unified = unified ? 1 : 0;
  params.n_batch = std::max(n_batch, n_seq_max);
  params.n_ubatch = n_ubatch;
  return params;
}

// Returns parameters for at least n_seq sequences, each for a prompt and answer of
// n_ctx_seq tokens.
inline lh_engine_params deterministic_params(int32_t n_ctx_seq, int32_t n_seq) {
  const int32_t n_seq_max = lh::round_up(n_seq, lh::kUniformRows);
  lh_engine_params params =
      engine_params((n_ctx_seq + lh::kUniformRows - 1) * n_seq_max, n_seq_max, false);
  params.deterministic = 1;
  params.flash_attn = 1;
  params.type_v = GGML_TYPE_BF16;
  return params;
}

inline lh_sampling_params greedy() {
  lh_sampling_params params;
  lh_sampling_default_params(&params);
  return params;
}

inline std::vector<int32_t> tokens(const std::string& text) {
  std::vector<int32_t> out;
  for (const char c : text) out.push_back(static_cast<uint8_t>(c));
  return out;
}

// Memory for the stop texts or the choices of a request.
struct Texts {
  explicit Texts(std::vector<std::string> all) : texts(std::move(all)) {
    for (const std::string& text : texts) {
      pointers.push_back(text.c_str());
      sizes.push_back(static_cast<int32_t>(text.size()));
    }
  }
  void put(lh_sampling_params& p) const {
    p.n_choices = static_cast<int32_t>(texts.size());
    p.choices = pointers.data();
    p.choice_size = sizes.data();
  }
  std::vector<std::string> texts;
  std::vector<const char*> pointers;
  std::vector<int32_t> sizes;
};

// A request, with the arrays to which it points.
struct Request {
  Request(int64_t id, std::vector<int32_t> prompt, int32_t max_tokens)
      : prompt_(std::move(prompt)), sampling(greedy()) {
    native.id = id;
    native.tokens = prompt_.data();
    native.n_tokens = static_cast<int32_t>(prompt_.size());
    native.max_tokens = max_tokens;
    native.fork_from = -1;
    native.sampling = &sampling;
  }
  Request& fork_from(int64_t id) {
    native.fork_from = id;
    return *this;
  }
  // Continues the first n tokens of a request that has ended.
  Request& continues(int64_t id, int32_t n) {
    native.fork_from = id;
    native.n_fork = n;
    return *this;
  }
  Request& keep() {
    native.keep = 1;
    return *this;
  }
  Request& may_draft(bool may = true) {
    native.draft = may ? 1 : 0;
    return *this;
  }
  Request& of_call(int64_t call) {
    native.call = call;
    return *this;
  }
  Request& priority(int32_t priority) {
    native.priority = priority;
    return *this;
  }
  Request& whole() {
    native.whole = 1;
    return *this;
  }
  Request& watch() {
    native.watch = 1;
    return *this;
  }
  Request& stop(std::vector<std::string> texts) {
    stops_ = std::make_shared<const Texts>(std::move(texts));
    native.stop = stops_->pointers.data();
    native.stop_size = stops_->sizes.data();
    native.n_stop = static_cast<int32_t>(stops_->texts.size());
    return *this;
  }
  Request& choose(std::vector<std::string> texts) {
    choices_ = std::make_shared<const Texts>(std::move(texts));
    choices_->put(sampling);
    return *this;
  }
  std::vector<int32_t> prompt_;
  std::shared_ptr<const Texts> stops_, choices_;
  lh_sampling_params sampling;
  lh_request native{};
};

inline void submit(lh_engine& engine, Request request) { engine.submit(request.native); }

struct Ran {
  lh_status status;
  std::vector<int64_t> events;
  lh_run_result result;
  std::string message;
};

inline Ran run(lh_engine& engine, int32_t max_steps = 0,
               const std::vector<int64_t>* ids = nullptr) {
  lh_run_params params{};
  params.max_steps = max_steps;
  if (ids != nullptr) {
    params.ids = ids->data();
    params.n_ids = static_cast<int32_t>(ids->size());
  }
  Ran ran{};
  {
    const allocations::Exempt exempt;
    ran.events.resize(1024);
  }
  ran.status = engine.run(params, ran.events.data(), 1024, ran.result, ran.message);
  ran.events.resize(static_cast<size_t>(ran.result.n_events));
  return ran;
}

// Runs until no request is active, or a call fails.
inline void run_all(lh_engine& engine) {
  Ran ran{};
  do {
    ran = run(engine);
  } while (ran.status == LH_OK && ran.result.n_active > 0);
}

}  // namespace toy
