// Tests the check of a model file before it is loaded.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "fake_llama.hpp"
#include "ggml.h"
#include "gguf.h"
#include "gguf_check.hpp"
#include "guard.hpp"
#include "has.hpp"

namespace {

using Header = std::unique_ptr<gguf_context, void (*)(gguf_context*)>;
using GgufChange = std::function<void(gguf_context*)>;

constexpr int64_t kRow = 32;

// Returns the bytes of a file with two tensors of kRow numbers each and a changed header.
std::string file_with(const GgufChange& change, ggml_type type = GGML_TYPE_F32) {
  const Header header(gguf_init_empty(), gguf_free);
  gguf_set_val_str(header.get(), "general.architecture", "llama");
  gguf_set_val_u32(header.get(), "llama.block_count", 2);
  const std::vector<const char*> tokens = {"", "", "a", "b"};
  gguf_set_arr_str(header.get(), "tokenizer.ggml.tokens",
                   const_cast<const char**>(tokens.data()), tokens.size());
  const std::unique_ptr<ggml_context, void (*)(ggml_context*)> tensors(
      ggml_init({1 << 16, nullptr, true}), ggml_free);
  size_t n_data = 0;
  for (const char* name : {"output.weight", "output_norm.weight"}) {
    const bool is_norm = std::strstr(name, "norm") != nullptr;
    ggml_tensor* tensor =
        ggml_new_tensor_1d(tensors.get(), is_norm ? GGML_TYPE_F32 : type, kRow);
    ggml_set_name(tensor, name);
    gguf_add_tensor(header.get(), tensor);
    n_data += GGML_PAD(ggml_nbytes(tensor), 32);
  }
  change(header.get());
  std::string bytes(gguf_get_meta_size(header.get()), '\0');
  gguf_get_meta_data(header.get(), bytes.data());
  return bytes + std::string(n_data, '\0');
}

std::string good_file() {
  return file_with([](gguf_context*) {});
}

lh_gguf_info check(const std::string& bytes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  REQUIRE(file != nullptr);
  REQUIRE(std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size());
  return lh::read_gguf(file.get(), "m.gguf", "model").info;
}

// Returns the error of the check of a file; "" without an error.
std::string problem(const std::string& bytes) {
  try {
    check(bytes);
  } catch (const lh::Error& error) {
    CHECK(error.code() == LH_MODEL_ERROR);
    return error.what();
  }
  return "";
}

void set(gguf_context* h, const std::string& architecture, const char* name,
         uint32_t value) {
  gguf_set_val_str(h, "general.architecture", architecture.c_str());
  gguf_set_val_u32(h, (architecture + "." + name).c_str(), value);
}

void set_heads(gguf_context* h, const char* architecture, uint32_t n, uint32_t n_kv) {
  set(h, architecture, "embedding_length", 32);
  set(h, architecture, "attention.head_count", n);
  set(h, architecture, "attention.head_count_kv", n_kv);
}

void set_state(gguf_context* h, const char* architecture, uint32_t n_conv,
               uint32_t n_heads, uint32_t n_groups) {
  set(h, architecture, "embedding_length", 32);
  set(h, architecture, "ssm.inner_size", 64);
  set(h, architecture, "ssm.conv_kernel", n_conv);
  set(h, architecture, "ssm.time_step_rank", n_heads);
  set(h, architecture, "ssm.group_count", n_groups);
}

template <class T>
void patch(std::string& bytes, size_t at, T value) {
  std::memcpy(&bytes.at(at), &value, sizeof value);
}

}  // namespace

TEST_CASE("a good file passes, and its sizes are told") {
  const std::string bytes = good_file();
  const lh_gguf_info info = check(bytes);
  CHECK(info.file_bytes == bytes.size());
  CHECK(info.n_tensors == 2);
  CHECK(info.tensor_bytes == 2 * kRow * sizeof(float));
  CHECK(info.n_parts == 1);
  CHECK(std::string(info.architecture) == "llama");
}

TEST_CASE("a file that is cut off anywhere is refused") {
  const std::string bytes = good_file();
  for (size_t n = 0; n < bytes.size(); ++n) {
    const std::string error = problem(bytes.substr(0, n));
    CAPTURE(n);
    CHECK(has(error, "model file \"m.gguf\" "));
    CHECK(has(error, n < 8 ? "is not a GGUF file" : "cut off"));
  }
  CHECK(has(problem(bytes.substr(0, bytes.size() - 1)), "tensor \"output_norm.weight\""));
}

TEST_CASE("damaged starts and counts are named") {
  const std::string bytes = good_file();
  std::string bad = bytes;
  bad[0] = 'g';
  CHECK(has(problem(bad), "does not start with \"GGUF\""));
  for (const uint32_t version : {0U, 1U, 4U, 0x03000000U}) {
    bad = bytes;
    patch(bad, 4, version);
    CHECK(has(problem(bad), "has GGUF version " + std::to_string(version)));
  }
  for (const size_t at : {8U, 16U}) {
    for (const int64_t count : {int64_t{-1}, int64_t{1} << 62, int64_t{1} << 40}) {
      bad = bytes;
      patch(bad, at, count);
      CHECK(has(problem(bad), "is damaged or cut off near byte "));
    }
  }
}

TEST_CASE("what libllama would end the process on is refused") {
  const std::vector<std::pair<GgufChange, std::string>> cases = {
      {[](auto* h) { gguf_set_val_u32(h, "llama.block_count", 0); },
       "has llama.block_count = 0, but it must be between 1 and 512"},
      {[](auto* h) { gguf_set_val_u32(h, "llama.block_count", 513); },
       "block_count = 513"},
      {[](auto* h) { gguf_set_val_u32(h, "llama.nextn_predict_layers", 3); },
       "nextn_predict_layers = 3"},
      {[](auto* h) { gguf_set_val_u32(h, "llama.expert_count", 1U << 31); },
       "expert_count = 2147483648, but it must be at most 1024"},
      {[](auto* h) { gguf_set_val_u32(h, "llama.expert_count", 4); },
       "expert_used_count = 0, but it must be between 1 and 4"},
      {[](auto* h) { gguf_set_val_u32(h, "llama.expert_used_count", 2); },
       "expert_used_count = 2, but it must be 0 without experts"},
      {[](auto* h) {
         const std::vector<int32_t> used = {1, -1};
         gguf_set_val_u32(h, "llama.expert_count", 4);
         gguf_set_arr_data(h, "llama.expert_used_count", GGUF_TYPE_INT32, used.data(), 2);
       },
       "expert_used_count = 4294967295"},
      {[](auto* h) {
         gguf_set_val_u32(h, "llama.expert_count", 4);
         gguf_set_val_u32(h, "llama.expert_used_count", 2);
         gguf_set_val_u32(h, "llama.expert_group_count", 3);
       },
       "expert_group_count = 3, but it must be less than expert_count, 4, and divide it"},
      {[](auto* h) {
         gguf_set_val_u32(h, "llama.expert_count", 4);
         gguf_set_val_u32(h, "llama.expert_used_count", 2);
         gguf_set_val_u32(h, "llama.expert_group_count", 2);
       },
       "expert_group_used_count = 0, but it must be between 1 and 1"},
      {[](auto* h) {
         gguf_set_val_str(h, "general.architecture", "jamba");
         gguf_set_val_u32(h, "jamba.embedding_length", 32);
         gguf_set_val_u32(h, "jamba.ssm.inner_size", 32);
       },
       "jamba.ssm.inner_size = 32, but it must be twice its embedding_length, 32"},
      {[](auto* h) { set_heads(h, "llama", 3, 2); },
       "head_count_kv = 2, but it must be a divisor of its head_count, 3"},
      {[](auto* h) { set_heads(h, "gemma3", 64, 64); },
       "key_length = 0, but it must be as its value_length, 0, and at least 1"},
      {[](auto* h) {
         set_heads(h, "gpt2", 2, 2);
         gguf_set_val_u32(h, "gpt2.attention.value_length", 8);
       },
       "gpt2.attention.key_length = 16, but it must be as its value_length, 8"},
      {[](auto* h) {
         set_heads(h, "qwen3", 2, 1);
         gguf_set_val_u32(h, "qwen3.rope.dimension_count", 8);
       },
       "qwen3.rope.dimension_count = 8, but it must be its key_length, 16"},
      {[](auto* h) {
         set_heads(h, "phi3", 2, 1);
         gguf_set_val_u32(h, "phi3.rope.dimension_count", 7);
       },
       "dimension_count = 7, but it must be even, and at most its key_length, 16"},
      {[](auto* h) {
         set_heads(h, "deepseek2", 2, 1);
         gguf_set_val_u32(h, "deepseek2.rope.dimension_count", 18);
       },
       "dimension_count = 18, but it must be even, and at most its key_length, 16"},
      {[](auto* h) { set_state(h, "mamba", 1, 4, 1); },
       "mamba.ssm.conv_kernel = 1, but it must be at least 2"},
      {[](auto* h) { set_state(h, "mamba2", 4, 0, 1); },
       "ssm.time_step_rank = 0, but it must be a divisor of its inner_size, 64"},
      {[](auto* h) { set_state(h, "mamba2", 4, 5, 1); }, "ssm.time_step_rank = 5"},
      {[](auto* h) { set_state(h, "falcon-h1", 4, 4, 0); }, "ssm.group_count = 0"},
      {[](auto* h) {
         gguf_set_val_str(h, "general.architecture", "lfm2");
         gguf_set_val_u32(h, "lfm2.shortconv.l_cache", 1);
       },
       "lfm2.shortconv.l_cache = 1, but it must be at least 2"},
      {[](auto* h) { gguf_set_val_str(h, "llama.rope.scaling.type", "x"); },
       "rope.scaling.type = x, but it must be none, linear, yarn or longrope"},
      {[](auto* h) {
         gguf_set_val_f32(h, "llama.attention.layer_norm_rms_epsilon",
                          std::numeric_limits<float>::quiet_NaN());
       },
       "layer_norm_rms_epsilon = nan"},
      {[](auto* h) { gguf_set_val_f32(h, "llama.attention.layer_norm_epsilon", -1); },
       "layer_norm_epsilon = -1"},
      {[](auto* h) {
         std::vector<const char*> tokens = {"a", "b", "a"};
         gguf_set_arr_str(h, "tokenizer.ggml.tokens", tokens.data(), tokens.size());
       },
       "token 2, \"a\", stands twice"},
      {[](auto* h) {
         const std::vector<int32_t> types = {1, 1, 6, 1};
         gguf_set_val_str(h, "tokenizer.ggml.model", "bert");
         gguf_set_arr_data(h, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(),
                           types.size());
       },
       "byte tokens, of a kind (bert)"},
  };
  for (const auto& [change, expected] : cases) {
    CHECK(has(problem(file_with(change)), expected));
  }
  const std::string integers = file_with([](gguf_context*) {}, GGML_TYPE_I32);
  CHECK(has(problem(integers), "tensor \"output.weight\" in type i32"));
}

TEST_CASE("a norm in f16 is refused, also if there is a GPU") {
  const std::string bytes = file_with(
      [](auto* h) { gguf_set_tensor_type(h, "output_norm.weight", GGML_TYPE_F16); });
  for (const bool has_gpu : {false, true}) {
    fake::settings().has_gpu = has_gpu;
    CHECK(has(problem(bytes), "\"output_norm.weight\" in type f16"));
  }
  fake::reset();
}

TEST_CASE("what is unusual but right passes") {
  const std::vector<GgufChange> cases = {
      [](auto* h) { gguf_set_val_u32(h, "llama.block_count", 512); },
      [](auto* h) {
        gguf_set_val_u32(h, "llama.expert_count", 8);
        gguf_set_val_u32(h, "llama.expert_used_count", 2);
        gguf_set_val_u32(h, "llama.expert_group_count", 4);
        gguf_set_val_u32(h, "llama.expert_group_used_count", 2);
      },
      [](auto* h) {
        gguf_set_val_str(h, "general.architecture", "hunyuan-dense");
        gguf_set_val_u32(h, "hunyuan-dense.expert_count", 1);
      },
      [](auto* h) { gguf_set_val_str(h, "llama.rope.scaling.type", "longrope"); },
      [](auto* h) { set_heads(h, "qwen3", 4, 2); },
      [](auto* h) {
        set_heads(h, "qwen3", 4, 4);
        set(h, "qwen3", "attention.key_length", 128);
        set(h, "qwen3", "attention.value_length", 128);
      },
      // Headers as in files of DeepSeek-V2, Phi-2 and Granite 4.
      [](auto* h) {
        set_heads(h, "deepseek2", 16, 1);
        set(h, "deepseek2", "attention.key_length", 576);
        set(h, "deepseek2", "attention.value_length", 512);
        set(h, "deepseek2", "rope.dimension_count", 64);
      },
      [](auto* h) {
        set_heads(h, "phi2", 1, 1);
        set(h, "phi2", "rope.dimension_count", 12);
      },
      // Nemotron and MiniMax-M2 rotate half of a head; their graphs have no assertion
      // about it.
      [](auto* h) {
        set_heads(h, "nemotron", 2, 1);
        set(h, "nemotron", "rope.dimension_count", 8);
      },
      [](auto* h) {
        set_heads(h, "minimax-m2", 2, 1);
        set(h, "minimax-m2", "rope.dimension_count", 8);
      },
      [](auto* h) { set_state(h, "granitehybrid", 4, 16, 1); },
      [](auto* h) { gguf_remove_key(h, "general.architecture"); },
  };
  for (const GgufChange& change : cases) CHECK(problem(file_with(change)) == "");
  CHECK(problem(file_with([](gguf_context*) {}, GGML_TYPE_Q8_0)) == "");
}

TEST_CASE("an architecture that was not reviewed is refused unless the user allows it") {
  const std::string bytes =
      file_with([](auto* h) { set(h, "made_up", "block_count", 2); });
  const auto allow = [](const char* value) {
#if defined(_WIN32)
    _putenv_s("LLAMAHERD_UNCHECKED_ARCHITECTURES", value);
#else
    setenv("LLAMAHERD_UNCHECKED_ARCHITECTURES", value, 1);
#endif
  };
  for (const char* no : {"", "0"}) {
    allow(no);
    CHECK(has(problem(bytes), "has the architecture \"made_up\""));
    CHECK(has(problem(bytes), "LLAMAHERD_UNCHECKED_ARCHITECTURES=1"));
  }
  allow("1");
  CHECK(problem(bytes) == "");
  allow("");
}

// The name of the folder is not ASCII.
TEST_CASE("a split model is checked with all its parts") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() /
                          fs::u8path("lh-\xCE\xBB-" + std::to_string(std::rand()));
  fs::create_directories(folder);
  const auto part = [&](int i) {
    return (folder / ("m-0000" + std::to_string(i + 1) + "-of-00003.gguf")).u8string();
  };
  const auto bytes = [](uint16_t i) {
    return file_with([i](gguf_context* h) {
      gguf_set_val_u16(h, "split.no", i);
      gguf_set_val_u16(h, "split.count", 3);
    });
  };
  const auto write = [&](uint16_t i) {
    std::ofstream(fs::u8path(part(i)), std::ios::binary) << bytes(i);
  };
  const auto says = [](const std::string& path) {
    lh_gguf_info info{};
    lh_error error{};
    CHECK(lh_gguf_check(path.c_str(), &info, &error) == LH_MODEL_ERROR);
    return std::string(error.message);
  };
  for (uint16_t i = 0; i < 2; ++i) write(i);
  CHECK(has(says(part(0)), "m-00003-of-00003.gguf\" cannot be opened: No such file"));
  CHECK(has(says(part(1)), "is part 2 of 3: give the path of the first part"));
  write(2);
  lh_gguf_info info{};
  CHECK(lh_gguf_check(part(0).c_str(), &info, nullptr) == LH_OK);
  CHECK(info.n_parts == 3);
  CHECK(info.n_tensors == 6);
  CHECK(info.file_bytes == 3 * bytes(0).size());
  const std::string renamed = (folder / "renamed.gguf").u8string();
  fs::rename(fs::u8path(part(0)), fs::u8path(renamed));
  CHECK(has(says(renamed), "is not named like one"));
  fs::remove_all(folder);
}

TEST_CASE("a model that does not fit into memory is refused with both numbers") {
  const std::string path =
      (std::filesystem::temp_directory_path() / "lh-large.gguf").string();
  std::ofstream(path, std::ios::binary) << good_file();
  lh_model_params params;
  lh_model_default_params(&params);
  CHECK(params.memory_bytes == 0);
  params.memory_bytes = 255;
  lh_model* model = nullptr;
  lh_error error{};
  CHECK(lh_model_load(path.c_str(), &params, &model, &error) == LH_MODEL_ERROR);
  CHECK(has(error.message,
            "does not fit into memory: its tensors take 256 bytes, and 255 bytes"));
  CHECK(lh_gguf_check(nullptr, nullptr, &error) == LH_INVALID_ARGUMENT);
  std::filesystem::remove(path);
}

namespace {

// Returns the missing tensor of a file with two layers, each with the tensors in `layer`,
// and with the tensors in `more`.
std::string missing(const char* architecture, const std::vector<std::string>& layer,
                    const std::vector<std::string>& more = {}, uint32_t n_further = 0) {
  const Header header(gguf_init_empty(), gguf_free);
  set(header.get(), architecture, "block_count", 2);
  set(header.get(), architecture, "nextn_predict_layers", n_further);
  std::unordered_set<std::string> names(more.begin(), more.end());
  for (const std::string& name : layer) {
    names.insert("blk.0." + name);
    names.insert("blk.1." + name);
  }
  return lh::missing_tensor(header.get(), names);
}

}  // namespace

TEST_CASE("a tensor that a graph takes for given is missed") {
  struct Case {
    const char* architecture;
    std::vector<std::string> layer;
    std::string absent;  // the first missing tensor; "" if none is missing
  };
  const std::vector<Case> cases = {
      {"phi3", {"attn_output.weight", "attn_qkv.weight"}, ""},
      {"phi3",
       {"attn_output.weight", "attn_q.weight", "attn_k.weight", "attn_v.weight"},
       ""},
      {"phi3", {"attn_output.weight", "attn_q.weight", "attn_k.weight"}, "attn_v.weight"},
      {"phi3", {"attn_output.weight"}, "attn_qkv.weight"},
      {"llama", {"attn_output.weight"}, ""},
      {"falcon-h1", {"ssm_conv1d.weight"}, "ssm_conv1d.bias"},
      {"granitehybrid", {"ssm_conv1d.weight"}, "ssm_conv1d.bias"},
      {"granitehybrid", {"ssm_conv1d.weight", "ssm_conv1d.bias"}, ""},
      {"granitehybrid", {"attn_q.weight"}, ""},
      {"nemotron_h", {"ssm_conv1d.weight"}, "ssm_conv1d.bias"},
      {"nemotron_h_moe", {"ffn_latent_up.weight"}, "ffn_latent_down.weight"},
      {"qwen35", {"ssm_conv1d.weight", "attn_gate.weight"}, "attn_qkv.weight"},
      {"qwen35moe", {"ssm_conv1d.weight", "attn_qkv.weight"}, "attn_gate.weight"},
      {"qwen3next", {"ssm_conv1d.weight", "ssm_in.weight"}, ""},
      {"qwen3next", {"ssm_conv1d.weight"}, "attn_qkv.weight"},
      {"qwen3next", {"ssm_conv1d.weight", "attn_qkv.weight"}, "attn_gate.weight"},
      {"hy_v3", {"ffn_gate_inp.weight"}, "ffn_up_exps.weight"},
      {"step35", {"ffn_up.weight", "ffn_gate.weight"}, "ffn_down.weight"},
      {"kimi-k3", {"ffn_gate_shexp.weight"}, "ffn_up_shexp.weight"},
      {"rwkv6",
       {"time_mix_receptance.weight", "time_mix_lerp_w.weight"},
       "time_mix_lerp_fused.weight"},
  };
  for (const Case& absence : cases) {
    const std::string error = missing(absence.architecture, absence.layer);
    CAPTURE(absence.architecture);
    CAPTURE(error);
    CHECK(error.empty() == absence.absent.empty());
    CHECK(error.rfind("has no tensor \"", 0) ==
          (absence.absent.empty() ? error.npos : 0));
    CHECK(has(error, absence.absent));
  }
  CHECK(has(missing("t5", {}, {"dec.blk.0.attn_q.weight"}), "dec.blk.0.attn_rel_b"));
  CHECK(has(missing("glm-dsa", {"attn_norm.weight"}), "blk.0.indexer.proj.weight"));
  CHECK(has(missing("qwen35", {}, {}, 1), "blk.0.attn_norm.weight"));
  CHECK(missing("qwen35", {"attn_norm.weight"}, {}, 1).empty());
}
