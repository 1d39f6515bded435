#include "sampler.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "grammar_matcher.hpp"
#include "guard.hpp"
#include "prepared.hpp"
#include "utf8.hpp"

namespace lh {
namespace {

// Smaller temperatures could result in infinite logits, whose differences are NaN. Even
// temperatures well above this value draw only the most likely token.
constexpr float kLeastTemperature = 1e-6F;

void require_number(const char* name, float value, float low, float high) {
  if (std::isfinite(value) && value >= low && value <= high) return;
  throw Error(LH_INVALID_ARGUMENT,
              std::string(name) + " must be between " + std::to_string(low) + " and " +
                  std::to_string(high) + ", not " + std::to_string(value));
}

bool has_grammar(const lh_sampling_params& p) {
  return p.grammar != nullptr && p.grammar[0] != '\0';
}

void check(const lh_model& model, const lh_sampling_params& p) {
#define LH_REAL(name, value, low, high) require_number(#name, p.name, low, high);
#define LH_WHOLE(name, value, low, high) require_range(#name, p.name, low, high);
#include "plain_settings.inc"
#undef LH_REAL
#undef LH_WHOLE
  require_range("n_dry_breakers", p.n_dry_breakers, 0, 1024);
  require_range("n_logit_bias", p.n_logit_bias, 0, model.n_vocab());
  if (p.n_logit_bias > 0) {
    deref(p.logit_bias_token, "logit_bias_token");
    deref(p.logit_bias_value, "logit_bias_value");
  }
  if (p.n_dry_breakers > 0) deref(p.dry_breakers, "dry_breakers");
  require_range("n_choices", p.n_choices, 0, INT32_MAX);
  require(p.min_tokens == 0 || (!has_grammar(p) && p.n_choices == 0),
          "min_tokens cannot be given with a grammar or choices, which say where an "
          "answer ends");
  require_range("n_stop_token_ids", p.n_stop_token_ids, 0, model.n_vocab());
  if (p.n_stop_token_ids > 0) deref(p.stop_token_ids, "stop_token_ids");
  for (int32_t i = 0; i < p.n_stop_token_ids; ++i) {
    require_range("stop_token_ids element", p.stop_token_ids[i], 0, model.n_vocab() - 1);
  }
  require(p.n_choices == 0 || !has_grammar(p),
          "grammar and choices cannot be given together: choices are a grammar");
  for (int32_t i = 0; i < p.n_logit_bias; ++i) {
    const int32_t token = p.logit_bias_token[i];
    require_range("logit_bias token", token, 0, model.n_vocab() - 1);
    if (std::isnan(p.logit_bias_value[i]) || p.logit_bias_value[i] > 1e30F) {
      throw Error(LH_INVALID_ARGUMENT, "logit_bias of token " + std::to_string(token) +
                                           " must be a number or -Inf");
    }
  }
}

bool has_penalty(const lh_sampling_params& p) {
  return p.repeat_last_n != 0 && (p.penalty_repeat != 1.0F || p.penalty_freq != 0.0F ||
                                  p.penalty_present != 0.0F);
}

std::vector<std::string_view> texts_of_choices(const lh_sampling_params& p) {
  deref(p.choices, "choices");
  deref(p.choice_size, "choice_size");
  std::vector<std::string_view> texts;
  texts.reserve(static_cast<size_t>(p.n_choices));
  for (int32_t i = 0; i < p.n_choices; ++i) {
    require_range("choice_size", p.choice_size[i], 0, INT32_MAX);
    texts.emplace_back(&deref(p.choices[i], "choices element"),
                       static_cast<size_t>(p.choice_size[i]));
  }
  return texts;
}

// Checks that a grammar allows a text: otherwise each answer would fail.
void require_start(const Constraint& constraint) {
  const std::unique_ptr<Constraint> start = constraint.copy();
  if (!start->forced_tokens().empty() || start->is_complete()) return;
  if (start->allowed_tokens().empty()) {
    throw Error(LH_SAMPLER_ERROR, "grammar allows no text: no token may come first");
  }
}

llama_sampler_ptr checked(llama_sampler* sampler) {
  if (sampler == nullptr) throw Error(LH_INTERNAL, "a sampler could not be made");
  return llama_sampler_ptr(sampler);
}

// Returns the sampler of a fixed temperature, or of a temperature that depends on the
// entropy. The lowest temperature is above 0, because a division by 0 would result in
// NaN.
llama_sampler* temperature_sampler(float temperature, const lh_sampling_params& p) {
  if (p.dynatemp_range <= 0.0F) return llama_sampler_init_temp(temperature);
  constexpr float kLeastDynamic = 1e-3F;
  const float low = std::max(temperature - p.dynatemp_range, kLeastDynamic);
  const float high = std::max(temperature + p.dynatemp_range, low);
  const float middle = (low + high) / 2.0F;
  return llama_sampler_init_temp_ext(middle, middle - low, p.dynatemp_exponent);
}

}  // namespace

// ---- SamplerCache -----------------------------------------------------------------

std::shared_ptr<const Choices> SamplerCache::choices(const lh_model& model,
                                                     const lh_sampling_params& p,
                                                     const lh_choice_paths* paths) {
  const std::vector<std::string_view> texts = texts_of_choices(p);
  const bool has_texts =
      choices_ && std::equal(texts.begin(), texts.end(), choices_->texts()->begin(),
                             choices_->texts()->end());
  if (has_texts && choices_->has_paths(paths)) return choices_;
  auto owned = has_texts
                   ? choices_->texts()
                   : std::make_shared<const Choices::Texts>(texts.begin(), texts.end());
  choices_ = paths == nullptr
                 ? std::make_shared<Choices>(std::move(owned), model)
                 : std::make_shared<Choices>(std::move(owned), model, *paths);
  return choices_;
}

std::shared_ptr<const SamplerCache::Bias> SamplerCache::bias(
    const lh_sampling_params& p) {
  Bias bias;
  bias.reserve(static_cast<size_t>(p.n_logit_bias));
  for (int32_t i = 0; i < p.n_logit_bias; ++i) {
    bias.emplace_back(p.logit_bias_token[i], p.logit_bias_value[i]);
  }
  if (!bias_ || *bias_ != bias) bias_ = std::make_shared<Bias>(std::move(bias));
  return bias_;
}

std::shared_ptr<const DryBreakers> SamplerCache::breakers(const lh_model& model,
                                                          const lh_sampling_params& p) {
  std::vector<std::string> texts;
  texts.reserve(static_cast<size_t>(p.n_dry_breakers));
  for (int32_t i = 0; i < p.n_dry_breakers; ++i) {
    texts.emplace_back(&deref(p.dry_breakers[i], "dry_breakers element"));
  }
  if (!breakers_ || breaker_texts_ != texts) {
    breakers_ = std::make_shared<DryBreakers>(model, texts);
    breaker_texts_ = std::move(texts);
  }
  return breakers_;
}

// ---- Penalties --------------------------------------------------------------------

Penalties::Penalties(const lh_sampling_params& params)
    : window_(has_penalty(params) ? params.repeat_last_n : 0),
      repeat_(params.penalty_repeat),
      frequency_(params.penalty_freq),
      presence_(params.penalty_present) {}

void Penalties::accept(int32_t token) {
  if (!enabled()) return;
  ++counts_[token];
  if (window_ < 0) return;
  recent_.push_back(token);
  if (recent_.size() <= static_cast<size_t>(window_)) return;
  const auto oldest = counts_.find(recent_.front());
  if (--oldest->second == 0) counts_.erase(oldest);
  recent_.pop_front();
}

void Penalties::apply(float* logits) const {
  for (const auto& [token, count] : counts_) {
    float& logit = logits[token];
    logit = logit <= 0.0F ? logit * repeat_ : logit / repeat_;
    logit -= static_cast<float>(count) * frequency_ + presence_;
  }
}

// ---- Sampler ----------------------------------------------------------------------

void check_sampling(const lh_model& model, const lh_sampling_params& p) {
  check(model, p);
  if (p.n_choices > 0) {
    const std::vector<std::string_view> texts = texts_of_choices(p);
    Choices::check({texts.begin(), texts.end()});
  }
  if (has_grammar(p)) require_start(*PreparedConstraints::of(model).constraint(p));
}

Sampler::Sampler(const lh_model& model, const lh_sampling_params& p, SamplerCache& cache,
                 const lh_choice_paths* paths)
    : model_(&model),
      // libllama interprets this value as "random seed".
      seed_(p.seed == LLAMA_DEFAULT_SEED ? 0 : p.seed),
      greedy_(p.temperature <= 0.0F),
      ignore_eos_(p.ignore_eos != 0),
      min_tokens_(p.min_tokens),
      penalties_(p) {
  check(model, p);
  if (p.n_stop_token_ids > 0 && p.n_choices == 0) {
    stop_tokens_.assign(p.stop_token_ids, p.stop_token_ids + p.n_stop_token_ids);
    std::sort(stop_tokens_.begin(), stop_tokens_.end());
  }
  bias_ = cache.bias(p);
  if (p.dry_multiplier > 0.0F && p.dry_penalty_last_n != 0) {
    dry_ = std::make_unique<Dry>(cache.breakers(model, p), p);
  }
  if (p.n_choices > 0) {
    auto mine = std::make_unique<ChoiceConstraint>(cache.choices(model, p, paths), model);
    choice_ = mine.get();
    constraint_ = std::move(mine);
  } else if (has_grammar(p)) {
    start_ = PreparedConstraints::of(model).constraint(p);
    constraint_ = start_->copy();
  }
  if (greedy_) return;
  const float temperature = std::max(p.temperature, kLeastTemperature);

  llama_sampler_chain_params chain_params = llama_sampler_chain_default_params();
  chain_params.no_perf = true;
  chain_ = checked(llama_sampler_chain_init(chain_params));
  if (p.mirostat != 0) {
    add_chain(llama_sampler_init_temp(temperature));
    add_chain(
        p.mirostat == 1
            ? llama_sampler_init_mirostat(model.n_vocab(), seed_, p.mirostat_tau,
                                          p.mirostat_eta, 100)
            : llama_sampler_init_mirostat_v2(seed_, p.mirostat_tau, p.mirostat_eta));
    return;
  }
  constexpr size_t kMinKeep = 1;
  if (p.top_n_sigma > 0.0F) add_chain(llama_sampler_init_top_n_sigma(p.top_n_sigma));
  if (p.top_k > 0) {
    // As the first step of the chain, top-k can read the logits directly.
    if (!dry_ && p.top_n_sigma <= 0.0F) {
      top_k_first_ = std::min(p.top_k, model.n_vocab());
    } else {
      add_chain(llama_sampler_init_top_k(p.top_k));
    }
  }
  if (p.typical_p < 1.0F) add_chain(llama_sampler_init_typical(p.typical_p, kMinKeep));
  if (p.top_p < 1.0F) add_chain(llama_sampler_init_top_p(p.top_p, kMinKeep));
  if (p.min_p > 0.0F) add_chain(llama_sampler_init_min_p(p.min_p, kMinKeep));
  if (p.xtc_probability > 0.0F) {
    add_chain(
        llama_sampler_init_xtc(p.xtc_probability, p.xtc_threshold, kMinKeep, seed_));
  }
  add_chain(temperature_sampler(temperature, p));
  add_chain(llama_sampler_init_dist(seed_));
}

const Choices* Sampler::sought() const {
  const bool is_plain = greedy_ && bias_->empty() && !penalties_.enabled() && !dry_;
  if (choice_ == nullptr || !is_plain) return nullptr;
  const Choices& choices = choice_->choices();
  return choices.only(Choices::kStart) < 0 ? &choices : nullptr;
}

void Sampler::add_chain(llama_sampler* sampler) {
  llama_sampler_ptr owned = checked(sampler);
  llama_sampler_chain_add(chain_.get(), owned.get());
  [[maybe_unused]] const auto* theirs =
      owned.release();  // owned by the chain from now on
}

void Sampler::see(int32_t token) {
  // Prompts may contain ids outside the vocabulary; llama_decode rejects them later.
  if (!model_->contains(token)) return;
  penalties_.accept(token);
  if (dry_) dry_->accept(token);
}

void Sampler::fill(const float* logits, bool is_bound,
                   std::vector<llama_token_data>& candidates) {
  const int32_t n = model_->n_vocab();
  candidates.resize(static_cast<size_t>(is_bound ? 0 : n));
  if (is_bound) {
    for (const int32_t i : constraint_->allowed_tokens()) {
      candidates.push_back({i, logits[i], 0.0F});
    }
    return;
  }
  for (int32_t i = 0; i < n; ++i) {
    candidates[static_cast<size_t>(i)] = {i, logits[i], 0.0F};
  }
}

int32_t Sampler::pick(LogitRow& row, bool is_bound,
                      std::vector<llama_token_data>& taken) {
  if (greedy_ && !is_bound && !dry_) {
    return row.highest() == kMinusInfinity ? kNothingLeft : row.argmax();
  }
  const bool top_k = top_k_first_ > 0 && !is_bound;
  if (top_k) {
    row.take_top_k(top_k_first_, taken);
  } else {
    fill(row.logits(), is_bound, taken);
  }
  llama_token_data_array candidates = {taken.data(), taken.size(), -1, top_k};
  if (dry_) dry_->apply(candidates);

  // Forbidden tokens must not reach the chain, because typical-p and XTC count the
  // candidates.
  const auto* end =
      std::remove_if(candidates.data, candidates.data + candidates.size,
                     [](const llama_token_data& c) { return c.logit == kMinusInfinity; });
  candidates.size = static_cast<size_t>(end - candidates.data);
  if (candidates.size == 0) return kNothingLeft;
  // If there is a single candidate, it is taken without a draw, because mirostat would
  // divide by zero.
  if (candidates.size == 1) return candidates.data[0].id;
  if (greedy_) {
    return std::max_element(candidates.data, candidates.data + candidates.size,
                            [](const llama_token_data& a, const llama_token_data& b) {
                              return a.logit < b.logit;
                            })
        ->id;
  }
  if (is_bound && top_k_first_ > 0 &&
      static_cast<size_t>(top_k_first_) < candidates.size) {
    std::partial_sort(candidates.data, candidates.data + top_k_first_,
                      candidates.data + candidates.size,
                      [](const llama_token_data& a, const llama_token_data& b) {
                        return a.logit > b.logit;
                      });
    candidates.size = static_cast<size_t>(top_k_first_);
    candidates.sorted = true;
  }
  llama_sampler_apply(chain_.get(), &candidates);
  if (candidates.selected < 0 ||
      candidates.selected >= static_cast<int64_t>(candidates.size)) {
    throw Error(LH_INTERNAL, "the sampler chain selected no token");
  }
  return candidates.data[candidates.selected].id;
}

void Sampler::read(float* logits, LogitRow& row) noexcept {
  if (ignore_eos_ || hides_ends()) {
    for (const int32_t token : model_->eog_tokens()) {
      if (!is_stop_token(token)) logits[token] = kMinusInfinity;
    }
  }
  if (hides_ends()) {
    for (const int32_t token : stop_tokens_) logits[token] = kMinusInfinity;
  }
  for (const int32_t token : model_->suppressed_tokens()) logits[token] = kMinusInfinity;
  for (const auto& [token, value] : *bias_) logits[token] += value;
  penalties_.apply(logits);
  row.find(logits);
  if (constraint_) constraint_->prepare();
}

int32_t Sampler::sample(LogitRow& row, std::vector<llama_token_data>& candidates) {
  const float highest = row.highest();
  const bool may_forbid = ignore_eos_ || hides_ends() || !bias_->empty() ||
                          !model_->suppressed_tokens().empty();
  if (!std::isfinite(highest) && !(may_forbid && highest == kMinusInfinity)) {
    throw Error(LH_DECODE_ERROR, "the model's logits are not finite numbers");
  }

  // Drawing first and checking only the drawn token is much cheaper than masking the
  // vocabulary (llama.cpp's common_sampler_sample does the same).
  int32_t token = pick(row, false, candidates);
  if (constraint_ && (token == kNothingLeft || !constraint_->allows(token))) {
    // A model without a chat format rarely ends an answer with an end-of-generation
    // token. Therefore any token that does not continue a longer choice ends a complete
    // choice.
    if (has_choices() && constraint_->is_complete()) return kEnd;
    token = pick(row, true, candidates);
  }
  if (token == kNothingLeft) {
    return constraint_ && constraint_->is_complete() ? kEnd : kNothingLeft;
  }
  take(token);
  return token;
}

bool Sampler::is_stop_token(int32_t token) const {
  return std::binary_search(stop_tokens_.begin(), stop_tokens_.end(), token);
}

bool Sampler::is_forbidden(int32_t token) const {
  const auto& never = model_->suppressed_tokens();
  return std::find(never.begin(), never.end(), token) != never.end() ||
         std::any_of(bias_->begin(), bias_->end(), [&](const auto& biased) {
           return biased.first == token && biased.second == kMinusInfinity;
         });
}

std::vector<int32_t> Sampler::forced_tokens() {
  if (!constraint_) return {};
  std::vector<int32_t> tokens = constraint_->forced_tokens();
  // A forbidden token must not be forced, so the list ends before the first such token.
  // The error is reported when the next token is drawn.
  const auto end = std::find_if(tokens.begin(), tokens.end(),
                                [this](int32_t token) { return is_forbidden(token); });
  tokens.erase(end, tokens.end());
  return tokens;
}

void Sampler::take(int32_t token) {
  see(token);
  if (hides_ends()) ++n_taken_;
  if (constraint_) constraint_->accept(token);
  if (chain_) llama_sampler_accept(chain_.get(), token);
}

bool Sampler::is_whole(const std::vector<int32_t>& tokens, size_t n_bytes) const {
  if (!start_) return true;
  const std::unique_ptr<Constraint> constraint = start_->copy();
  for (const int32_t token : tokens) {
    const std::string piece = model_->piece(token);
    if (piece.size() > n_bytes) return constraint->completes(piece.substr(0, n_bytes));
    constraint->accept(token);
    n_bytes -= piece.size();
  }
  return constraint->is_complete();
}

std::string Sampler::why_stuck(const std::string& text) const {
  constexpr size_t kShown = 40;
  size_t start = text.size() > kShown ? text.size() - kShown : 0;
  while (start < text.size() && continues_character(text[start])) ++start;
  const std::string after = " after \"" + text.substr(start) + "\"";
  if (!constraint_) {
    return "no token may come" + after + ": logit_bias" +
           (min_tokens_ > 0 ? ", min_tokens" : "") + " and ignore_eos forbid them all";
  }
  return (has_choices() ? "choices" : "grammar") + std::string(" cannot be finished") +
         after + ": no token may come there, and the text is not complete" +
         (!bias_->empty() ? " (logit_bias forbids tokens)" : "");
}

}  // namespace lh
