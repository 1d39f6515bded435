#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "adapters.hpp"
#include "ggml.h"
#include "gguf_check.hpp"
#include "guard.hpp"
#include "llama_compat.hpp"

namespace lh {
namespace {

using Shape = std::array<int64_t, GGML_MAX_DIMS>;
using Shapes = std::map<std::string, Shape, std::less<>>;

constexpr std::string_view kA = ".lora_a";
constexpr std::string_view kB = ".lora_b";
constexpr std::string_view kNorm = "_norm.weight";
constexpr const char* kEmbedding = "token_embd.weight";
constexpr const char* kOutput = "output.weight";

std::string shape_text(const Shape& shape) {
  std::string text;
  for (const int64_t n : shape) text += (text.empty() ? "" : " x ") + std::to_string(n);
  return text;
}

Shape shape_of(const gguf_context* header, int64_t i) {
  Shape shape{};
  std::copy_n(compat::tensor_shape(header, i), shape.size(), shape.begin());
  return shape;
}

Shapes shapes_of_model(const std::string& path) {
  Shapes shapes;
  const int32_t n_parts = read_gguf(path, "model").info.n_parts;
  for (const std::string& part : part_paths(path, n_parts)) {
    const Gguf file = read_gguf(part, "model");
    for (int64_t i = 0; i < file.info.n_tensors; ++i) {
      shapes.emplace(gguf_get_tensor_name(file.header.get(), i),
                     shape_of(file.header.get(), i));
    }
  }
  return shapes;
}

class LoraFile {
 public:
  LoraFile(const std::string& path, const Gguf& file)
      : path_(path), header_(file.header.get()), n_tensors_(file.info.n_tensors) {}

  void check(const Shapes& model) const {
    check_metadata();
    const auto [a, b] = pairs();
    if (a.empty() && b.empty()) refuse("has no tensors of an adapter");
    for (const auto& [name, shape] : a) {
      if (b.count(name) == 0) refuse_half(name, kB);
    }
    for (const auto& [name, shape] : b) {
      const auto half = a.find(name);
      if (half == a.end()) refuse_half(name, kA);
      check_pair(name, half->second, shape, model);
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error(LH_MODEL_ERROR, "LoRA file \"" + path_ + "\" " + reason);
  }

  [[noreturn]] void refuse_half(const std::string& name, std::string_view half) const {
    refuse("has half of a pair: \"" + name + std::string(half) + "\" is missing");
  }

  // libllama asserts on the types of these values.
  int64_t find(const char* key, gguf_type type) const {
    const int64_t id = gguf_find_key(header_, key);
    if (id >= 0 && gguf_get_kv_type(header_, id) != type) {
      refuse(std::string("has ") + key + " as " +
             gguf_type_name(gguf_get_kv_type(header_, id)) + ", but it must be " +
             gguf_type_name(type));
    }
    return id;
  }

  std::string text(const char* key) const {
    const int64_t id = find(key, GGUF_TYPE_STRING);
    return id < 0 ? "" : gguf_get_val_str(header_, id);
  }

  void check_metadata() const {
    const std::string type = text("general.type");
    if (type != "adapter") {
      refuse("is not an adapter: its general.type is \"" + type + "\"" +
             (type == "model" || type.empty() ? " (is it a model?)" : ""));
    }
    const std::string kind = text("adapter.type");
    if (kind != "lora") refuse("is an adapter, but of type \"" + kind + "\": not a LoRA");
    text("general.architecture");  // libllama compares this value with the model's
    const int64_t id = find("adapter.lora.alpha", GGUF_TYPE_FLOAT32);
    if (id >= 0 && !std::isfinite(gguf_get_val_f32(header_, id))) {
      refuse("has adapter.lora.alpha = " + std::to_string(gguf_get_val_f32(header_, id)) +
             ", but it must be finite");
    }
    if (gguf_find_key(header_, "adapter.alora.invocation_tokens") >= 0) {
      refuse(
          "is an activated LoRA, to be applied from certain tokens on only, which "
          "llamaherd cannot do");
    }
  }

  std::pair<Shapes, Shapes> pairs() const {
    std::pair<Shapes, Shapes> halves;
    for (int64_t i = 0; i < n_tensors_; ++i) {
      const std::string name = gguf_get_tensor_name(header_, i);
      const bool is_a = ends_with(name, kA);
      if (!is_a && !ends_with(name, kB)) {
        if (ends_with(name, kNorm)) continue;  // libllama ignores these tensors, too
        refuse("has tensor \"" + name + "\", which is not part of an adapter");
      }
      const ggml_type type = gguf_get_tensor_type(header_, i);
      if (type != GGML_TYPE_F32 && type != GGML_TYPE_F16 && type != GGML_TYPE_BF16 &&
          type != GGML_TYPE_Q8_0) {
        refuse("has tensor \"" + name + "\" in type " + ggml_type_name(type) +
               "; it must be f32, f16, bf16 or q8_0");
      }
      (is_a ? halves.first : halves.second)
          .emplace(name.substr(0, name.size() - kA.size()), shape_of(header_, i));
    }
    return halves;
  }

  // Checks the pair of matrices for one weight: a has the weight's input size, b its
  // output size. For the token embedding, whose rows are looked up in a, the roles are
  // reversed.
  void check_pair(const std::string& name, const Shape& a, const Shape& b,
                  const Shapes& model) const {
    const auto entry = model.find(name);
    if (entry == model.end()) {
      refuse("has tensors for \"" + name +
             "\", which the model does not have: was it made for another model?");
    }
    const Shape& weight = entry->second;
    const bool is_embedding = name == kEmbedding;
    const bool fits = is_embedding
                          ? a[0] == b[0] && a[1] == weight[1] && b[1] == weight[0]
                          : a[1] == b[0] && a[0] == weight[0] && b[1] == weight[1];
    const bool is_flat = a[2] == weight[2] && b[2] == weight[2] && a[3] * b[3] == 1;
    if (!fits || !is_flat || b[0] < 1) {
      refuse("has " + name + ".lora_a of shape " + shape_text(a) +
             " and .lora_b of shape " + shape_text(b) +
             ", which do not fit the model's " + shape_text(weight) +
             ": was it made for another model?");
    }
    if (is_embedding && model.count(kOutput) == 0) {
      refuse(
          "adapts the embedding of a model that also uses it for its output, which "
          "libllama cannot do");
    }
  }

  const std::string& path_;
  const gguf_context* header_;
  int64_t n_tensors_;
};

}  // namespace

uint64_t check_loras(const lh_adapters* adapters, const std::string& model_path) {
  if (adapters == nullptr) return 0;
  uint64_t n_bytes = 0;
  Shapes model;
  for (int32_t i = 0; i < adapters->n_lora; ++i) {
    const std::string path = adapters->lora[i].path;
    const Gguf file = read_gguf(path, "LoRA");
    if (model.empty()) model = shapes_of_model(model_path);
    LoraFile(path, file).check(model);
    n_bytes += file.info.tensor_bytes;
  }
  return n_bytes;
}

}  // namespace lh
