#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <unordered_set>

#include "ggml.h"
#include "gguf_check.hpp"
#include "gguf_reviewed.hpp"
#include "llama.h"

namespace lh {
namespace {

// Limits from libllama's internal headers (llama-hparams.h, ggml-impl.h), which are not
// installed.
constexpr uint32_t kMaxLayers = 512;
constexpr uint32_t kMaxExperts = 1024;
constexpr size_t kLeastAlignment = 32;

// Architectures whose graphs contain assertions about values in the file, for the pinned
// libllama (src/models).
// These graphs assert that the K and V heads of the attention have equal sizes:
constexpr std::string_view kEqualHeads[] = {
    "apertus",    "arcee",     "arctic",     "baichuan",   "bailingmoe2", "bitnet",
    "bloom",      "chameleon", "chatglm",    "codeshell",  "cohere2",     "command-r",
    "dbrx",       "deepseek",  "dots1",      "dream",      "ernie4_5",    "ernie4_5-moe",
    "exaone",     "exaone4",   "falcon",     "glm4",       "glm4moe",     "gpt2",
    "gptneox",    "granite",   "granitemoe", "grok",       "grovemoe",    "hunyuan-moe",
    "internlm2",  "jais",      "llada",      "llada-moe",  "llama",       "llama4",
    "minimax-m2", "mistral3",  "mpt",        "nemotron",   "olmo",        "olmo2",
    "olmoe",      "openelm",   "orion",      "phi2",       "phi3",        "plamo",
    "qwen",       "qwen2",     "qwen2moe",   "qwen2vl",    "qwen3",       "qwen3moe",
    "qwen3next",  "qwen3vl",   "qwen3vlmoe", "refact",     "rnd1",        "smallthinker",
    "smollm3",    "stablelm",  "starcoder",  "starcoder2", "xverse"};
// These graphs assert that RoPE rotates the whole K head:
constexpr std::string_view kFullRotation[] = {
    "apertus",  "arcee",       "arctic",    "baichuan",     "chameleon",  "codeshell",
    "dbrx",     "deepseek",    "dots1",     "dream",        "ernie4_5",   "ernie4_5-moe",
    "exaone",   "exaone4",     "falcon",    "granite",      "granitemoe", "grok",
    "grovemoe", "hunyuan-moe", "internlm2", "llada",        "llada-moe",  "llama",
    "llama4",   "mistral3",    "olmo",      "olmo2",        "olmoe",      "orion",
    "plamo",    "qwen2",       "qwen2moe",  "qwen2vl",      "qwen3",      "qwen3moe",
    "qwen3vl",  "qwen3vlmoe",  "rnd1",      "smallthinker", "smollm3",    "starcoder2",
    "xverse"};
// These graphs assert that the inner size of a recurrent layer is twice embedding_length:
constexpr std::string_view kTwiceAsWide[] = {"jamba", "granitehybrid"};
// These graphs assert that the inner size is divisible by ssm.time_step_rank (heads) and
// by ssm.group_count:
constexpr std::string_view kSplitState[] = {"mamba2", "granitehybrid", "nemotron_h",
                                            "nemotron_h_moe", "falcon-h1"};

template <size_t N>
bool is_one_of(std::string_view name, const std::string_view (&names)[N]) {
  return std::find(names, names + N, name) != names + N;
}

class Hazards {
 public:
  explicit Hazards(const gguf_context* header)
      : header_(header),
        architecture_(text_value(header, "general.architecture")),
        prefix_(architecture_ + ".") {}

  std::string first() const {
    for (const auto check :
         {&Hazards::architecture, &Hazards::alignment, &Hazards::context_length,
          &Hazards::layers, &Hazards::experts, &Hazards::heads, &Hazards::recurrence,
          &Hazards::scaling, &Hazards::epsilons, &Hazards::tokens, &Hazards::tensors}) {
      std::string hazard = (this->*check)();
      if (!hazard.empty()) return hazard;
    }
    return "";
  }

 private:
  // Returns a number, or the largest of an array with one number per layer; `none` if
  // missing.
  uint32_t number(const std::string& name, uint32_t none) const {
    const std::string key = prefix_ + name;
    const int64_t id = find_value(header_, key, GGUF_TYPE_ARRAY);
    if (id < 0) return u32_value(header_, key, none);
    const gguf_type type = gguf_get_arr_type(header_, id);
    const size_t n = gguf_get_arr_n(header_, id);
    if ((type != GGUF_TYPE_UINT32 && type != GGUF_TYPE_INT32) || n == 0) return none;
    const auto* values = static_cast<const uint32_t*>(gguf_get_arr_data(header_, id));
    return *std::max_element(values, values + n);
  }

  // Returns a number that is the same for all layers; `none` if missing.
  uint32_t single(const std::string& name, uint32_t none) const {
    return u32_value(header_, prefix_ + name, none);
  }

  std::string key_is(const std::string& name, const std::string& value,
                     const std::string& must) const {
    return "has " + prefix_ + name + " = " + value + ", but it must be " + must;
  }

  // Refuses what is not known to be safe. libllama itself refuses a file without an
  // architecture.
  std::string architecture() const {
    const char* allowed = std::getenv("LLAMAHERD_UNCHECKED_ARCHITECTURES");
    if (architecture_.empty() || is_one_of(architecture_, kReviewed) ||
        (allowed != nullptr && std::string_view(allowed) == "1")) {
      return "";
    }
    return "has the architecture \"" + architecture_ +
           "\", whose files llamaherd cannot check: with a damaged file, llama.cpp may "
           "end the process (set LLAMAHERD_UNCHECKED_ARCHITECTURES=1 to load it anyway)";
  }

  std::string alignment() const {
    const size_t bytes = gguf_get_alignment(header_);
    if (bytes >= kLeastAlignment) return "";
    return "has general.alignment = " + std::to_string(bytes) + ", but it must be " +
           std::to_string(kLeastAlignment) + " or more";
  }

  // Positions are signed numbers of 32 bits.
  std::string context_length() const {
    constexpr uint32_t kMost = std::numeric_limits<int32_t>::max();
    const uint32_t n = number("context_length", 1);
    if (n >= 1 && n <= kMost) return "";
    return key_is("context_length", std::to_string(n),
                  "between 1 and " + std::to_string(kMost));
  }

  std::string layers() const {
    const uint32_t n = number("block_count", 1);
    if (n == 0 || n > kMaxLayers) {
      return key_is("block_count", std::to_string(n),
                    "between 1 and " + std::to_string(kMaxLayers));
    }
    const uint32_t n_more = number("nextn_predict_layers", 0);
    if (n_more <= n) return "";
    return key_is("nextn_predict_layers", std::to_string(n_more),
                  "at most block_count, " + std::to_string(n));
  }

  std::string experts() const {
    const uint32_t n = number("expert_count", 0);
    if (n > kMaxExperts) {
      return key_is("expert_count", std::to_string(n),
                    "at most " + std::to_string(kMaxExperts));
    }
    // HunYuan's files use 1 for "none", which libllama handles.
    if (n <= 1 && prefix_.rfind("hunyuan", 0) == 0) return "";
    const uint32_t n_used = number("expert_used_count", 0);
    if (n_used > n || (n > 0 && n_used == 0)) {
      return key_is("expert_used_count", std::to_string(n_used),
                    n == 0 ? "0 without experts" : "between 1 and " + std::to_string(n));
    }
    const uint32_t n_groups = number("expert_group_count", 0);
    if (n == 0 ? n_groups == 0 : n_groups < n && (n_groups < 2 || n % n_groups == 0)) {
      const uint32_t n_groups_used = number("expert_group_used_count", 0);
      if (n_groups < 2 || (n_groups_used > 0 && n_groups_used < n_groups)) return "";
      return key_is("expert_group_used_count", std::to_string(n_groups_used),
                    "between 1 and " + std::to_string(n_groups - 1));
    }
    return key_is("expert_group_count", std::to_string(n_groups),
                  "less than expert_count, " + std::to_string(n) + ", and divide it");
  }

  // If layers have different numbers of heads, it is unknown here which layers have
  // attention.
  std::string heads() const {
    const uint32_t n = single("attention.head_count", 0);
    if (n == 0) return "";
    const uint32_t n_kv = single("attention.head_count_kv", n);
    if (n_kv > 0 && n % n_kv != 0) {
      return key_is("attention.head_count_kv", std::to_string(n_kv),
                    "a divisor of its head_count, " + std::to_string(n));
    }
    const uint32_t n_share = single("embedding_length", n) / n;
    const uint32_t n_key = single("attention.key_length", n_share);
    const uint32_t n_value = single("attention.value_length", n_share);
    if (n_key == 0 || (n_value != n_key && is_one_of(architecture_, kEqualHeads))) {
      return key_is(
          "attention.key_length", std::to_string(n_key),
          "as its value_length, " + std::to_string(n_value) + ", and at least 1");
    }
    const uint32_t n_rotated = single("rope.dimension_count", n_key);
    const bool is_full = is_one_of(architecture_, kFullRotation);
    if (n_rotated == n_key || (!is_full && n_rotated < n_key && n_rotated % 2 == 0)) {
      return "";
    }
    return key_is("rope.dimension_count", std::to_string(n_rotated),
                  (is_full ? "its key_length, " : "even, and at most its key_length, ") +
                      std::to_string(n_key));
  }

  std::string recurrence() const {
    for (const auto* name : {"ssm.conv_kernel", "shortconv.l_cache"}) {
      const uint32_t n = single(name, 2);
      if (n < 2) return key_is(name, std::to_string(n), "at least 2");
    }
    const uint32_t n_inner = single("ssm.inner_size", 0);
    if (is_one_of(architecture_, kTwiceAsWide)) {
      const uint32_t n_embd = single("embedding_length", 0);
      if (n_inner != 2 * uint64_t{n_embd}) {
        return key_is("ssm.inner_size", std::to_string(n_inner),
                      "twice its embedding_length, " + std::to_string(n_embd));
      }
    }
    if (!is_one_of(architecture_, kSplitState)) return "";
    for (const auto* name : {"ssm.time_step_rank", "ssm.group_count"}) {
      const uint32_t n = single(name, 1);
      if (n == 0 || n_inner % n != 0) {
        return key_is(name, std::to_string(n),
                      "a divisor of its inner_size, " + std::to_string(n_inner));
      }
    }
    return "";
  }

  std::string scaling() const {
    const int64_t id =
        find_value(header_, prefix_ + "rope.scaling.type", GGUF_TYPE_STRING);
    if (id < 0) return "";
    const std::string_view type = gguf_get_val_str(header_, id);
    for (const auto* known : {"none", "linear", "yarn", "longrope"}) {
      if (type == known) return "";
    }
    return key_is("rope.scaling.type", std::string(type),
                  "none, linear, yarn or longrope");
  }

  std::string epsilons() const {
    for (const auto* name :
         {"attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon",
          "attention.group_norm_epsilon"}) {
      const int64_t id = find_value(header_, prefix_ + name, GGUF_TYPE_FLOAT32);
      if (id < 0) continue;
      const float value = gguf_get_val_f32(header_, id);
      if (!std::isfinite(value) || value < 0) {
        return key_is(name, std::to_string(value), "a number of at least 0");
      }
    }
    return "";
  }

  std::string tokens() const {
    const int64_t id = find_value(header_, "tokenizer.ggml.tokens", GGUF_TYPE_ARRAY);
    if (id < 0 || gguf_get_arr_type(header_, id) != GGUF_TYPE_STRING) return "";
    const std::string kind = text_value(header_, "tokenizer.ggml.model");
    if (has_byte_tokens_in_vain(kind)) {
      return "has a vocabulary with byte tokens, of a kind (" + kind +
             ") that cannot have them";
    }
    const size_t n = gguf_get_arr_n(header_, id);
    std::unordered_set<std::string_view> seen;
    seen.reserve(n);
    for (size_t i = 0; i < n; ++i) {
      const std::string_view token = gguf_get_arr_str(header_, id, i);
      // libllama gives empty tokens distinct names.
      if (!token.empty() && !seen.insert(token).second) {
        return "has a vocabulary in which token " + std::to_string(i) + ", \"" +
               std::string(token) + "\", stands twice";
      }
    }
    return "";
  }

  bool has_byte_tokens_in_vain(const std::string& kind) const {
    const int64_t id = find_value(header_, "tokenizer.ggml.token_type", GGUF_TYPE_ARRAY);
    if ((kind != "bert" && kind != "rwkv") || id < 0 ||
        gguf_get_arr_type(header_, id) != GGUF_TYPE_INT32) {
      return false;
    }
    const auto* types = static_cast<const int32_t*>(gguf_get_arr_data(header_, id));
    const int32_t* end = types + gguf_get_arr_n(header_, id);
    return std::find(types, end, static_cast<int32_t>(LLAMA_TOKEN_TYPE_BYTE)) != end;
  }

  std::string tensors() const {
    const int64_t n = gguf_get_n_tensors(header_);
    for (int64_t i = 0; i < n; ++i) {
      const std::string_view name = gguf_get_tensor_name(header_, i);
      const ggml_type type = gguf_get_tensor_type(header_, i);
      if (is_of_state(name) && type != GGML_TYPE_F32) {
        return "has tensor \"" + std::string(name) + "\" in type " +
               ggml_type_name(type) + ", which cannot be computed with: it must be f32";
      }
      // Tables of ids (deepseek4's tid2eid, d2t of draft models) are integers by design.
      if (!ends_with(name, ".weight") || name.find("tid2eid") != name.npos) continue;
      const bool is_norm = name.find("norm") != std::string_view::npos;
      // The kernel of the processor that multiplies by a norm supports f32 only. With a
      // GPU, some layers may still be on the processor.
      if (is_norm ? type != GGML_TYPE_F32 : !is_weight_type(type)) {
        return "has tensor \"" + std::string(name) + "\" in type " +
               ggml_type_name(type) + ", which cannot be computed with" +
               (is_norm ? ": it must be f32" : "");
      }
    }
    return "";
  }

  // Tests whether a tensor of a recurrent layer is used outside matrix products, in
  // operations that support f32 only.
  static bool is_of_state(std::string_view name) {
    const auto has = [&](std::string_view part) {
      return name.find(part) != std::string_view::npos;
    };
    const std::string_view last = name.substr(name.rfind('.') + 1);
    return last == "ssm_a" || last == "ssm_d" || has(".ssm_conv1d") ||
           has(".ssm_dt.bias") || has(".shortconv.conv.");
  }

  static bool is_weight_type(ggml_type type) {
    return ggml_is_quantized(type) || type == GGML_TYPE_F32 || type == GGML_TYPE_F16 ||
           type == GGML_TYPE_BF16;
  }

  const gguf_context* header_;
  std::string architecture_;
  std::string prefix_;  // prefix of the architecture's keys
};

}  // namespace

std::string gguf_hazard(const gguf_context* header) { return Hazards(header).first(); }

}  // namespace lh
