// Tests that a struct with a wrong size is refused, with the name of the struct.
#include <doctest/doctest.h>

#include <string>

#include "newrllama_capi.h"
#include "toy.hpp"

namespace {

// Returns the error of a call whose struct has a size that is 8 bytes too small.
template <class Struct, class Call>
void check_refused(Struct& fields, const char* name, Call call) {
  CAPTURE(name);
  REQUIRE(fields.struct_size == sizeof(Struct));
  lh_error error{};
  for (const uint64_t size : {uint64_t{0}, uint64_t{sizeof(Struct) - 8}}) {
    fields.struct_size = size;
    CHECK(call(&error) == LH_INVALID_ARGUMENT);
    const std::string start = std::string("struct_size of ") + name + " must be " +
                              std::to_string(sizeof(Struct)) + ", not " +
                              std::to_string(size) + ": ";
    CHECK(std::string(error.message).substr(0, start.size()) == start);
  }
  fields.struct_size = sizeof(Struct);
}

template <class Struct>
Struct with_defaults(void (*set)(Struct*)) {
  Struct fields;
  set(&fields);
  return fields;
}

}  // namespace

TEST_CASE("the library tells the version of its interface") {
  CHECK(lh_abi_version() == LH_ABI_VERSION);
  CHECK(newrllama_abi_version() == NEWRLLAMA_ABI_VERSION);
}

TEST_CASE("a model's parameters and adapters of another size are refused") {
  fake::reset();
  lh_model* model = nullptr;
  lh_lora lora{};
  lora.struct_size = sizeof(lora);
  lora.path = "no/such.gguf";
  lh_adapters adapters{};
  adapters.struct_size = sizeof(adapters);
  adapters.lora = &lora;
  adapters.n_lora = 1;
  auto params = with_defaults(lh_model_default_params);
  params.adapters = &adapters;
  const auto load = [&](lh_error* error) {
    return lh_model_load(fake::kModelPath, &params, &model, error);
  };
  check_refused(params, "lh_model_params", load);
  check_refused(adapters, "lh_adapters", load);
  check_refused(lora, "lh_lora", load);
  CHECK(load(nullptr) == LH_MODEL_ERROR);
  const auto owner = toy::model();
  const auto adapt = [&](lh_error* error) {
    return lh_model_adapt(owner.get(), &adapters, &model, error);
  };
  check_refused(adapters, "lh_adapters", adapt);
  check_refused(lora, "lh_lora", adapt);
  CHECK(model == nullptr);
}

TEST_CASE("parameters of engines and embedders of another size are refused") {
  fake::reset();
  lh_model* model = lh_model::hand_out(toy::model());
  lh_engine* engine = nullptr;
  auto params = toy::engine_params(256, 4, true);
  const auto make = [&](lh_error* error) {
    return lh_engine_new(model, &params, &engine, error);
  };
  check_refused(params, "lh_engine_params", make);
  REQUIRE(make(nullptr) == LH_OK);
  check_refused(params, "lh_engine_params", [&](lh_error* error) {
    return lh_engine_resize(engine, &params, error);
  });
  CHECK(lh_engine_resize(engine, &params, nullptr) == LH_OK);
  auto run = with_defaults(lh_run_default_params);
  lh_run_result result;
  check_refused(run, "lh_run_params", [&](lh_error* error) {
    return lh_engine_run(engine, &run, nullptr, 0, &result, error);
  });
  CHECK(lh_engine_run(engine, &run, nullptr, 0, &result, nullptr) == LH_OK);
  auto embedder_params = with_defaults(lh_embedder_default_params);
  lh_embedder* embedder = nullptr;
  const auto make_embedder = [&](lh_error* error) {
    return lh_embedder_new(model, &embedder_params, &embedder, error);
  };
  check_refused(embedder_params, "lh_embedder_params", make_embedder);
  CHECK(make_embedder(nullptr) == LH_OK);
  lh_embedder_free(embedder);
  lh_engine_free(engine);
  lh_model_free(model);
}

TEST_CASE("a request and what it points to are refused with another size") {
  fake::reset();
  const auto model = toy::model();
  lh_engine engine(*model, toy::engine_params(256, 4, true));
  const std::vector<int32_t> prompt = toy::tokens("hello");
  auto sampling = with_defaults(lh_sampling_default_params);
  auto request = with_defaults(lh_request_default_params);
  CHECK(request.fork_from == -1);
  request.tokens = prompt.data();
  request.n_tokens = static_cast<int32_t>(prompt.size());
  request.max_tokens = 4;
  request.sampling = &sampling;
  const auto submit = [&](lh_error* error) {
    return lh_engine_submit(&engine, &request, error);
  };
  check_refused(request, "lh_request", submit);
  check_refused(sampling, "lh_sampling_params", submit);
  check_refused(sampling, "lh_sampling_params", [&](lh_error* error) {
    return lh_sampling_check(model.get(), &sampling, error);
  });
  const int32_t node = 1;
  const int32_t parent = -1;
  const int32_t choice = 0;
  lh_score score{sizeof(lh_score), 1, &node, &parent};
  request.score = &score;
  check_refused(score, "lh_score", submit);
  request.score = nullptr;
  lh_choice_paths paths{sizeof(lh_choice_paths), 1, &node, &parent, &choice};
  request.paths = &paths;
  check_refused(paths, "lh_choice_paths", submit);
  request.paths = nullptr;
  CHECK(submit(nullptr) == LH_OK);
}
