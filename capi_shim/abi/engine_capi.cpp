// extern "C" functions of llamaherd.h for the engine and its clients.
#include <string_view>

#include "engine.hpp"
#include "guard.hpp"
#include "llguidance.hpp"
#include "struct_size.hpp"

using lh::deref;
using lh::deref_sized;
using lh::guard;

void lh_engine_default_params(lh_engine_params* params) {
  lh::set_defaults(params, [](lh_engine_params& p) {
    p.n_ctx = 2048;
    p.n_seq_max = 1;
    p.n_batch = 512;
    p.n_ubatch = 512;
    p.kv_unified = 1;
    p.flash_attn = -1;
    p.offload_kqv = 1;
    p.type_k = -1;
    p.type_v = -1;
    p.rope_scaling_type = -1;
    p.yarn_ext_factor = -1.0F;
    p.yarn_attn_factor = -1.0F;
    p.yarn_beta_fast = -1.0F;
    p.yarn_beta_slow = -1.0F;
  });
}

void lh_sampling_default_params(lh_sampling_params* params) {
  lh::set_defaults(params, [](lh_sampling_params& p) {
#define LH_REAL(name, value, low, high) p.name = value;
#define LH_WHOLE(name, value, low, high) p.name = value;
#include "plain_settings.inc"
#undef LH_REAL
#undef LH_WHOLE
    p.seed = 1234;
  });
}

void lh_request_default_params(lh_request* request) {
  lh::set_defaults(request, [](lh_request& p) { p.fork_from = -1; });
}

void lh_run_default_params(lh_run_params* params) {
  lh::set_defaults(params, [](lh_run_params&) {});
}

int32_t lh_sampling_check(const lh_model* model, const lh_sampling_params* params,
                          lh_error* error) {
  return guard(error, [&] {
    lh::check_sampling(deref(model, "model"), deref_sized(params, "params"));
  });
}

int32_t lh_set_llguidance(const lh_llguidance* functions, lh_error* error) {
  return guard(error, [&] { lh::set_llguidance(deref_sized(functions, "functions")); });
}

int32_t lh_grammar_accepts(const lh_model* model, int32_t grammar_kind,
                           const char* grammar, const char* text, int32_t n_text,
                           int32_t* accepted, lh_error* error) {
  return guard(error, [&] {
    lh::require_range("n_text", n_text, 0, INT32_MAX);
    const lh_model& of = deref(model, "model");
    const auto constraint =
        lh::start_llguidance(of, grammar_kind, &deref(grammar, "grammar"));
    const std::string_view all(&deref(text, "text"), static_cast<size_t>(n_text));
    deref(accepted, "accepted") = lh::accepts_text(*constraint, of, all) ? 1 : 0;
  });
}

int32_t lh_engine_new(lh_model* model, const lh_engine_params* params, lh_engine** out,
                      lh_error* error) {
  return guard(error, [&] {
    deref(out, "out") = nullptr;
    *out =
        std::make_unique<lh_engine>(deref(model, "model"), deref_sized(params, "params"))
            .release();
  });
}

void lh_engine_free(lh_engine* engine) { lh::free_unless_forked(engine); }

int32_t lh_engine_get_info(lh_engine* engine, lh_engine_info* out, lh_error* error) {
  return guard(error, [&] { deref(out, "out") = deref(engine, "engine").info(); });
}

int32_t lh_engine_get_stats(lh_engine* engine, int64_t call, lh_stats* out,
                            lh_error* error) {
  return guard(error, [&] { deref(out, "out") = deref(engine, "engine").stats(call); });
}

int32_t lh_engine_forget_call(lh_engine* engine, int64_t call, lh_error* error) {
  return guard(error, [&] { deref(engine, "engine").forget_call(call); });
}

int32_t lh_engine_resize(lh_engine* engine, const lh_engine_params* params,
                         lh_error* error) {
  return guard(error,
               [&] { deref(engine, "engine").resize(deref_sized(params, "params")); });
}

int32_t lh_engine_submit(lh_engine* engine, const lh_request* request, lh_error* error) {
  return guard(error,
               [&] { deref(engine, "engine").submit(lh::check_request_sizes(request)); });
}

int32_t lh_engine_run(lh_engine* engine, const lh_run_params* params, int64_t* events,
                      int32_t capacity, lh_run_result* result, lh_error* error) {
  lh_status status = LH_OK;
  std::string message;
  const int32_t failure = guard(error, [&] {
    lh_run_result& counts = deref(result, "result");
    counts = {};
    status = deref(engine, "engine")
                 .run(deref_sized(params, "params"), events, capacity, counts, message);
  });
  if (failure != LH_OK) return failure;
  return lh::set_error(error, status, message.c_str());
}

void lh_engine_abort(lh_engine* engine, int32_t abort) {
  guard(nullptr, [&] { deref(engine, "engine").abort(abort != 0); });
}

void lh_engine_wake(lh_engine* engine) {
  guard(nullptr, [&] { deref(engine, "engine").wake(); });
}

int32_t lh_client_pause(lh_engine* engine, int64_t id, lh_error* error) {
  return guard(error, [&] { deref(engine, "engine").pause(id); });
}

int32_t lh_client_resume(lh_engine* engine, int64_t id, lh_error* error) {
  return guard(error, [&] { deref(engine, "engine").resume(id); });
}

int32_t lh_client_set_priority(lh_engine* engine, int64_t id, int32_t priority,
                               lh_error* error) {
  return guard(error, [&] { deref(engine, "engine").set_priority(id, priority); });
}

int32_t lh_client_end(lh_engine* engine, int64_t id, int32_t reason, const char* message,
                      lh_error* error) {
  return guard(error, [&] {
    deref(engine, "engine").end(id, static_cast<lh_finish>(reason), message);
  });
}

int32_t lh_client_get(lh_engine* engine, int64_t id, lh_client_info* out,
                      lh_error* error) {
  return guard(error, [&] { deref(out, "out") = deref(engine, "engine").get(id); });
}

int32_t lh_client_read(lh_engine* engine, int64_t id, int32_t n_bytes, int32_t n_tokens,
                       lh_piece* out, lh_error* error) {
  return guard(error, [&] {
    deref(out, "out") = deref(engine, "engine").read(id, n_bytes, n_tokens);
  });
}

int32_t lh_client_release(lh_engine* engine, int64_t id, lh_error* error) {
  return guard(error, [&] { deref(engine, "engine").release(id); });
}

int32_t lh_engine_reset(lh_engine* engine, lh_error* error) {
  return guard(error, [&] { deref(engine, "engine").reset(); });
}

int32_t lh_engine_seq_pos_max(lh_engine* engine, int32_t seq_id) {
  int32_t position = -1;
  guard(nullptr, [&] { position = deref(engine, "engine").seq_pos_max(seq_id); });
  return position;
}
