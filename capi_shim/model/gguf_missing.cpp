#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gguf_check.hpp"

namespace lh {
namespace {

using Names = std::unordered_set<std::string>;

// Rule for tensors that must occur together: a model with all tensors in `given` must
// have all tensors of one alternative in `needed`. Names are separated by spaces,
// alternatives by "|". Names of layer tensors omit "blk.3." and ".weight".
struct Rule {
  std::string_view architectures;
  std::string_view condition;
  std::string_view needed;
};

// Tensors that the graphs of the pinned libllama (src/models) use although its loader
// accepts files without them (TENSOR_NOT_REQUIRED). If such a tensor is missing, a
// pointer is null or shapes do not match. The list comes from a comparison of loader and
// graph of every architecture (decision 0015).
constexpr Rule kOfLayers[] = {
    {"phi3 pockettts", "attn_output", "attn_qkv|attn_q attn_k attn_v"},
    {"falcon-h1 granitehybrid nemotron_h nemotron_h_moe", "ssm_conv1d",
     "ssm_conv1d.bias"},
    {"nemotron_h nemotron_h_moe", "ffn_latent_down", "ffn_latent_up"},
    {"nemotron_h nemotron_h_moe", "ffn_latent_up", "ffn_latent_down"},
    {"qwen35 qwen35moe", "ssm_conv1d", "attn_qkv attn_gate"},
    {"qwen3next", "ssm_conv1d", "attn_qkv|ssm_in"},
    {"qwen3next", "ssm_conv1d attn_qkv", "attn_gate"},
    {"hy_v3", "ffn_gate_inp", "ffn_up_exps ffn_down_exps|ffn_gate_up_exps ffn_down_exps"},
    {"mimo2 step35", "ffn_gate_inp", "ffn_up_exps ffn_down_exps"},
    {"hy_v3 mimo2 step35", "ffn_down_exps", "ffn_gate_inp"},
    {"grok hy_v3 mimo2 step35", "ffn_up", "ffn_gate ffn_down"},
    {"grok hy_v3 mimo2 step35", "ffn_gate", "ffn_up ffn_down"},
    {"grok hy_v3 mimo2 step35", "ffn_down", "ffn_gate ffn_up"},
    {"hy_v3 step35 kimi-k3 kimi-linear", "ffn_up_shexp", "ffn_gate_shexp ffn_down_shexp"},
    {"hy_v3 step35 kimi-k3 kimi-linear", "ffn_gate_shexp", "ffn_up_shexp ffn_down_shexp"},
    {"hy_v3 step35 kimi-k3 kimi-linear", "ffn_down_shexp", "ffn_gate_shexp ffn_up_shexp"},
    {"glm-dsa", "indexer.proj", "indexer.attn_k indexer.attn_q_b indexer.k_norm"},
    {"glm-dsa", "indexer.attn_k", "indexer.proj indexer.attn_q_b indexer.k_norm"},
    {"glm-dsa", "indexer.attn_q_b", "indexer.proj indexer.attn_k indexer.k_norm"},
    {"rwkv6", "time_mix_receptance",
     "time_mix_lerp_fused|time_mix_lerp_w time_mix_lerp_k time_mix_lerp_v "
     "time_mix_lerp_r time_mix_lerp_g"},
};
constexpr Rule kOfFiles[] = {
    {"t5 t5encoder", "enc.blk.0.attn_q.weight", "enc.blk.0.attn_rel_b.weight"},
    {"t5", "dec.blk.0.attn_q.weight", "dec.blk.0.attn_rel_b.weight"},
    {"glm-dsa", "blk.0.attn_norm.weight", "blk.0.indexer.proj.weight"},
};
// Architectures with layers that predict further tokens. If this tensor is missing,
// libllama assumes that the file has only these layers, and treats all other tensors as
// optional.
constexpr std::string_view kWithFurther =
    "bailingmoe3 cohere2moe deepseek2 deepseek32 deepseek4 glm-dsa glm4moe hy_v3 mimo2 "
    "nemotron_h nemotron_h_moe qwen35 qwen35moe qwen3next step35";
constexpr std::string_view kFirstNorm = "blk.0.attn_norm.weight";

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(at, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

bool is_among(std::string_view name, std::string_view names) {
  const auto all = split(names, ' ');
  return std::find(all.begin(), all.end(), name) != all.end();
}

std::string in_layer(std::string_view prefix, std::string_view name) {
  return std::string(prefix) + std::string(name) +
         (prefix.empty() || ends_with(name, ".bias") ? "" : ".weight");
}

// Returns the first missing tensor; "" if none is missing.
std::string first_missing(std::string_view tensors, std::string_view prefix,
                          const Names& names) {
  for (const std::string_view tensor : split(tensors, ' ')) {
    std::string name = in_layer(prefix, tensor);
    if (names.count(name) == 0) return name;
  }
  return "";
}

std::string broken(const Rule& rule, std::string_view prefix, const Names& names) {
  if (!first_missing(rule.condition, prefix, names).empty()) return "";
  std::string tensors;
  for (const std::string_view alternative : split(rule.needed, '|')) {
    const std::string missing = first_missing(alternative, prefix, names);
    if (missing.empty()) return "";
    tensors += (tensors.empty() ? "\"" : " or \"") + missing + "\"";
  }
  return "has no tensor " + tensors + ", which this architecture needs together with \"" +
         in_layer(prefix, split(rule.condition, ' ').front()) + "\"";
}

}  // namespace

void add_tensor_names(const gguf_context* header, Names& names) {
  const int64_t n = gguf_get_n_tensors(header);
  for (int64_t i = 0; i < n; ++i) names.emplace(gguf_get_tensor_name(header, i));
}

std::string missing_tensor(const gguf_context* header, const Names& names) {
  const std::string architecture = text_value(header, "general.architecture");
  const bool has_further =
      u32_value(header, architecture + ".nextn_predict_layers", 0) > 0;
  if (has_further && is_among(architecture, kWithFurther) &&
      names.count(std::string(kFirstNorm)) == 0) {
    return "has no tensor \"" + std::string(kFirstNorm) +
           "\": it is damaged, or has only the layers that predict further tokens, which "
           "cannot be used alone";
  }
  for (const Rule& rule : kOfFiles) {
    if (!is_among(architecture, rule.architectures)) continue;
    std::string problem = broken(rule, "", names);
    if (!problem.empty()) return problem;
  }
  const uint32_t n_layers = u32_value(header, architecture + ".block_count", 0);
  for (const Rule& rule : kOfLayers) {
    if (!is_among(architecture, rule.architectures)) continue;
    for (uint32_t i = 0; i < n_layers; ++i) {
      std::string problem = broken(rule, "blk." + std::to_string(i) + ".", names);
      if (!problem.empty()) return problem;
    }
  }
  return "";
}

}  // namespace lh
