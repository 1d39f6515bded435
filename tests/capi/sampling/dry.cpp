/* Compares DRY with libllama's own sampler, on the vocabulary of
 * SmolLM2-135M-Instruct. */
#include "dry.hpp"

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>

#include "check.h"
#include "sampler.hpp"

namespace {

// Only few different tokens, so that they repeat; some of them are breakers.
std::vector<int32_t> some_tokens(const lh_model& model, std::mt19937& random) {
  const std::string text = "a b: the end\nof \"it\" *all* END of. now\n\n";
  std::vector<int32_t> pool = model.tokenize(text, false, false);
  pool.resize(2 + random() % pool.size());
  return pool;
}

template <class Draw>
lh_sampling_params some_params(Draw&& pick) {
  lh_sampling_params p;
  lh_sampling_default_params(&p);
  p.dry_multiplier = pick({0.5F, 2.0F, 1e6F});
  p.dry_base = pick({1.0F, 1.5F, 3.0F, 1e6F});
  p.dry_allowed_length = static_cast<int32_t>(pick({0, 1, 2, 5}));
  p.dry_penalty_last_n = static_cast<int32_t>(pick({1, 7, 60, 4096}));
  return p;
}

void compare(const lh_model& model, const std::vector<const char*>& breakers,
             std::mt19937& random) {
  const auto pick = [&](std::initializer_list<float> values) {
    return *(values.begin() + random() % values.size());
  };
  const lh::DryBreakers* first = nullptr;
  lh::SamplerCache cache;
  for (int round = 0; round < 20; ++round) {
    lh_sampling_params p = some_params(pick);
    p.n_dry_breakers = static_cast<int32_t>(breakers.size());
    p.dry_breakers = breakers.data();
    const auto shared = cache.breakers(model, p);
    CHECK(first == nullptr || first == shared.get());  // created once for all samplers
    first = shared.get();
    lh::Dry ours(shared, p);
    std::vector<const char*> texts = breakers;
    const llama_sampler_ptr theirs(llama_sampler_init_dry(
        model.vocab(), p.dry_multiplier, p.dry_base, p.dry_allowed_length,
        p.dry_penalty_last_n, texts.data(), texts.size()));
    const std::vector<int32_t> pool = some_tokens(model, random);
    for (int step = 0; step < 80; ++step) {
      const int32_t token = pool[random() % pool.size()];
      ours.accept(token);
      llama_sampler_accept(theirs.get(), token);
      std::vector<llama_token_data> a;
      for (const int32_t id : pool) a.push_back({id, 1.0F, 0.0F});
      std::vector<llama_token_data> b = a;
      llama_token_data_array array_a = {a.data(), a.size(), -1, false};
      llama_token_data_array array_b = {b.data(), b.size(), -1, false};
      ours.apply(array_a);
      llama_sampler_apply(theirs.get(), &array_b);
      bool same = true;
      for (size_t i = 0; i < a.size(); ++i) same = same && a[i].logit == b[i].logit;
      CHECK(same);
    }
  }
}

}  // namespace

int main() {
  const char* path = std::getenv("LLAMAHERD_TEST_SMOLLM2");
  if (path == nullptr) {
    std::fprintf(stderr,
                 "LLAMAHERD_TEST_SMOLLM2 must name the model file; see `make models`\n");
    return 2;
  }
  lh_model_params params;
  lh_model_default_params(&params);
  params.vocab_only = 1;
  const auto model = lh_model::load(path, params);
  std::mt19937 random(3);
  compare(*model, {"\n", ":", "\"", "*"}, random);
  compare(*model, {}, random);
  compare(*model, {"the end\nof", " END of", "it\" *a", "b"}, random);
  compare(*model, {"the end\nof \"it\" *all* END of. now and on and on and on"}, random);
  compare(*model, {"", "\n\n"}, random);
  std::printf("dry: %d passed, %d failed\n", n_passed, n_failed);
  return n_failed == 0 ? 0 : 1;
}
