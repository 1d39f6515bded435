// Tests of adapters: their files, their owners, and their use in contexts.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adapters.hpp"
#include "fake_llama.hpp"
#include "ggml.h"
#include "gguf.h"
#include "guard.hpp"
#include "has.hpp"
#include "toy.hpp"

namespace {

using Header = std::unique_ptr<gguf_context, void (*)(gguf_context*)>;
using Tensors = std::unique_ptr<ggml_context, void (*)(ggml_context*)>;
using Shape = std::array<int64_t, 3>;
using Shapes = std::vector<std::pair<std::string, Shape>>;
using LoraChange = std::function<void(gguf_context*, Shapes&)>;

constexpr int64_t kIn = 32;
constexpr int64_t kOut = 64;
constexpr int64_t kRank = 4;
constexpr int64_t kVocab = 96;

// A file in a temporary folder, which is removed with the object.
class File {
 public:
  File(const std::string& name, gguf_context* header, const Shapes& shapes,
       ggml_type type) {
    path_ = (std::filesystem::temp_directory_path() / ("lh-" + name)).string();
    const Tensors tensors(ggml_init({1 << 16, nullptr, true}), ggml_free);
    size_t n_data = 0;
    for (const auto& [tensor_name, shape] : shapes) {
      const bool is_norm = tensor_name.find("norm") != std::string::npos;
      ggml_tensor* tensor = ggml_new_tensor_3d(
          tensors.get(), is_norm ? GGML_TYPE_F32 : type, shape[0], shape[1], shape[2]);
      ggml_set_name(tensor, tensor_name.c_str());
      gguf_add_tensor(header, tensor);
      n_data += GGML_PAD(ggml_nbytes(tensor), 32);
    }
    std::string bytes(gguf_get_meta_size(header), '\0');
    gguf_get_meta_data(header, bytes.data());
    std::ofstream(path_, std::ios::binary) << bytes << std::string(n_data, '\0');
  }
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
};

File model_file(bool with_output) {
  const Header header(gguf_init_empty(), gguf_free);
  gguf_set_val_str(header.get(), "general.architecture", "llama");
  Shapes shapes = {{"token_embd.weight", {kIn, kVocab, 1}},
                   {"blk.0.up.weight", {kIn, kOut, 1}},
                   {"blk.0.exps.weight", {kIn, kOut, 3}}};
  if (with_output) shapes.push_back({"output.weight", {kIn, kVocab, 1}});
  return {"base.gguf", header.get(), shapes, GGML_TYPE_F32};
}

File lora_file(const LoraChange& change, ggml_type type = GGML_TYPE_F32) {
  const Header header(gguf_init_empty(), gguf_free);
  gguf_set_val_str(header.get(), "general.architecture", "llama");
  gguf_set_val_str(header.get(), "general.type", "adapter");
  gguf_set_val_str(header.get(), "adapter.type", "lora");
  gguf_set_val_f32(header.get(), "adapter.lora.alpha", 8);
  Shapes shapes = {{"blk.0.up.weight.lora_a", {kIn, kRank, 1}},
                   {"blk.0.up.weight.lora_b", {kRank, kOut, 1}},
                   {"blk.0.exps.weight.lora_a", {kIn, kRank, 3}},
                   {"blk.0.exps.weight.lora_b", {kRank, kOut, 3}},
                   {"blk.0.attn_norm.weight", {kIn, 1, 1}}};
  change(header.get(), shapes);
  return {"lora.gguf", header.get(), shapes, type};
}

void nothing(gguf_context*, Shapes&) {}

lh_adapters adapters_of(const lh_lora& lora) {
  lh_adapters adapters{};
  adapters.struct_size = sizeof(lh_adapters);
  adapters.lora = &lora;
  adapters.n_lora = 1;
  return adapters;
}

uint64_t check(const File& lora, bool with_output = true) {
  const File model = model_file(with_output);
  const lh_lora one = {sizeof(lh_lora), lora.path(), 1.0F};
  const lh_adapters adapters = adapters_of(one);
  return lh::check_loras(&adapters, model.path());
}

// Returns the reason why an adapter is refused; "" if it is accepted.
std::string problem(const LoraChange& change, ggml_type type = GGML_TYPE_F32,
                    bool with_output = true) {
  try {
    check(lora_file(change, type), with_output);
  } catch (const lh::Error& error) {
    CHECK(error.code() == LH_MODEL_ERROR);
    return error.what();
  }
  return "";
}

LoraChange shape(size_t i, Shape other) {
  return [=](gguf_context*, Shapes& shapes) { shapes[i].second = other; };
}

LoraChange embedding(int64_t rank_of_b) {
  return [=](gguf_context*, Shapes& shapes) {
    shapes = {{"token_embd.weight.lora_a", {kRank, kVocab, 1}},
              {"token_embd.weight.lora_b", {rank_of_b, kIn, 1}}};
  };
}

}  // namespace

TEST_CASE("an adapter that fits its model passes, and its bytes are told") {
  const int64_t n = (kIn + kOut) * kRank * (1 + 3) + kIn;
  CHECK(check(lora_file(nothing)) == n * sizeof(float));
  CHECK(problem(nothing, GGML_TYPE_F16).empty());
  CHECK(problem(embedding(kRank)).empty());
  CHECK(lh::check_loras(nullptr, "no model") == 0);
}

TEST_CASE("what libllama would end the process on is refused") {
  const char* fits = "do not fit the model's";
  CHECK(has(problem(shape(0, {kIn + 1, kRank, 1})), fits));
  CHECK(has(problem(shape(0, {kIn, kRank + 1, 1})), fits));
  CHECK(has(problem(shape(1, {kRank, kOut + 1, 1})), fits));
  CHECK(has(problem(shape(0, {kIn, kRank, 2})), fits));
  CHECK(has(problem(shape(3, {kRank, kOut, 1})), fits));
  CHECK(has(problem(embedding(kRank + 1)), fits));
  CHECK(has(problem(embedding(kRank), GGML_TYPE_F32, false),
            "also uses it for its output"));
  CHECK(has(problem(nothing, GGML_TYPE_I32), "in type i32; it must be f32"));
  const auto drop = [](size_t i) {
    return [=](gguf_context*, Shapes& s) { s.erase(s.begin() + static_cast<long>(i)); };
  };
  CHECK(has(problem(drop(0)), "\"blk.0.up.weight.lora_a\" is missing"));
  CHECK(has(problem(drop(1)), "\"blk.0.up.weight.lora_b\" is missing"));
  CHECK(has(problem([](gguf_context*, Shapes& s) { s.clear(); }), "has no tensors"));
  CHECK(has(problem([](gguf_context*, Shapes& s) { s[0].first = "x"; }),
            "has tensor \"x\", which is not part of an adapter"));
  CHECK(has(problem([](gguf_context*, Shapes& s) {
              s[0].first = "x.lora_a";
              s[1].first = "x.lora_b";
            }),
            "\"x\", which the model does not have"));
}

TEST_CASE("metadata of an adapter is what libllama reads without asking") {
  const auto set = [](auto setter, const char* key, auto value) {
    return [=](gguf_context* h, Shapes&) {
      gguf_remove_key(h, key);
      setter(h, key, value);
    };
  };
  CHECK(has(problem(set(gguf_set_val_u32, "general.type", 1U)), "general.type as u32"));
  CHECK(has(problem(set(gguf_set_val_str, "general.type", "model")), "is it a model?"));
  CHECK(has(problem(set(gguf_set_val_str, "general.type", "imatrix")), "\"imatrix\""));
  CHECK(has(problem(set(gguf_set_val_u32, "adapter.type", 1U)), "adapter.type as u32"));
  CHECK(has(problem(set(gguf_set_val_str, "adapter.type", "x")),
            "of type \"x\": not a LoRA"));
  CHECK(has(problem(set(gguf_set_val_u32, "adapter.lora.alpha", 1U)), "alpha as u32"));
  CHECK(has(problem(set(gguf_set_val_f32, "adapter.lora.alpha", INFINITY)), "= inf"));
  CHECK(has(problem(set(gguf_set_val_u32, "adapter.alora.invocation_tokens", 1U)),
            "is an activated LoRA"));
}

TEST_CASE("wrong lists of adapters are refused before anything is loaded") {
  fake::reset();
  lh_model* model = nullptr;
  lh_error error{};
  const auto refused = [&](const lh_adapters& adapters, const char* message) {
    lh_model_params params;
    lh_model_default_params(&params);
    params.adapters = &adapters;
    CHECK(lh_model_load(fake::kModelPath, &params, &model, &error) ==
          LH_INVALID_ARGUMENT);
    CHECK(has(error.message, message));
  };
  const lh_lora nan = {sizeof(lh_lora), "a.gguf", std::nanf("")};
  refused(adapters_of(nan), "lora[0].scale must be a finite number");
  const lh_lora nowhere = {sizeof(lh_lora), nullptr, 1.0F};
  refused(adapters_of(nowhere), "lora.path must not be NULL");
  lh_adapters adapters = adapters_of(nowhere);
  adapters.n_lora = -1;
  refused(adapters, "n_lora must be between 0 and 1024");
  adapters.n_lora = 1;
  adapters.lora = nullptr;
  refused(adapters, "lora must not be NULL");
  const lh_lora missing = {sizeof(lh_lora), "no/such.gguf", 1.0F};
  adapters = adapters_of(missing);
  lh_model_params params;
  lh_model_default_params(&params);
  params.adapters = &adapters;
  CHECK(lh_model_load(fake::kModelPath, &params, &model, &error) == LH_MODEL_ERROR);
  CHECK(has(error.message, "LoRA file \"no/such.gguf\" cannot be opened"));
}

TEST_CASE("adapters are loaded once, set on every context and freed with the model") {
  fake::reset();
  const File file = model_file(true);
  lh_lora loras[] = {{sizeof(lh_lora), file.path(), 0.5F},
                     {sizeof(lh_lora), file.path(), 2.0F}};
  lh_adapters adapters = adapters_of(loras[0]);
  adapters.n_lora = 2;
  {
    lh::Adapters owned;
    owned.load(&adapters, nullptr);
    CHECK(fake::n_loras() == 2);
    const auto model = toy::model();
    for (int i = 0; i < 2; ++i) {
      const lh_engine engine(*model, toy::engine_params(64, 2, true));
      CHECK(fake::loras().empty());
      const llama_context_ptr ctx(
          llama_init_from_model(model->get(), llama_context_default_params()));
      owned.set(ctx.get());
      REQUIRE(fake::loras().size() == 2);
      CHECK(fake::loras()[0].second == 0.5F);
      CHECK(fake::loras()[1].second == 2.0F);
    }
  }
  CHECK(fake::n_loras() == 0);
  loras[1].path = "unloadable.gguf";
  lh::Adapters half;
  CHECK_THROWS_AS(half.load(&adapters, nullptr), lh::Error);
  CHECK(fake::n_loras() == 1);
  CHECK(fake::counts().n_violations == 0);
}

TEST_CASE("an adapted model shares the weights of another and keeps them alive") {
  fake::reset();
  lh_model* base = lh_model::hand_out(toy::model());
  const lh_lora lora = {sizeof(lh_lora), "no/such.gguf", 0.5F};
  lh_adapters adapters = adapters_of(lora);
  adapters.n_lora = 0;
  lh_model* adapted = nullptr;
  lh_error error{};
  REQUIRE(lh_model_adapt(base, &adapters, &adapted, &error) == LH_OK);
  CHECK(adapted->get() == base->get());
  const std::weak_ptr<const lh_model> seen = base->held();
  lh_model_free(base);
  CHECK(!seen.expired());
  lh_model* none = nullptr;
  CHECK(lh_model_adapt(nullptr, &adapters, &none, &error) == LH_INVALID_ARGUMENT);
  adapters.n_lora = 1;
  CHECK(lh_model_adapt(adapted, &adapters, &none, &error) == LH_MODEL_ERROR);
  CHECK(has(error.message, "LoRA file \"no/such.gguf\" cannot be opened"));
  CHECK(none == nullptr);
  lh_model_free(adapted);
  CHECK(seen.expired());
}

TEST_CASE("settings of rotary embeddings go to the context") {
  fake::reset();
  const auto model = toy::model();
  lh_engine_params params = toy::engine_params(64, 2, true);
  {
    const lh_engine engine(*model, params);
    CHECK(fake::last_params().rope_scaling_type == LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED);
    CHECK(fake::last_params().yarn_attn_factor < 0);
  }
  params.rope_scaling_type = LLAMA_ROPE_SCALING_TYPE_YARN;
  params.rope_freq_base = 1;
  params.rope_freq_scale = 2;
  params.yarn_ext_factor = 3;
  params.yarn_attn_factor = 4;
  params.yarn_beta_fast = 5;
  params.yarn_beta_slow = 6;
  params.yarn_orig_ctx = 7;
  const lh_engine engine(*model, params);
  const llama_context_params& p = fake::last_params();
  CHECK(p.rope_scaling_type == LLAMA_ROPE_SCALING_TYPE_YARN);
  CHECK(p.rope_freq_base + p.rope_freq_scale == 3);
  CHECK(p.yarn_ext_factor + p.yarn_attn_factor == 7);
  CHECK(p.yarn_beta_fast + p.yarn_beta_slow == 11);
  CHECK(p.yarn_orig_ctx == 7);
}
