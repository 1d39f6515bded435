// Compares the sampler chain with libllama's own samplers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "guard.hpp"
#include "sampler.hpp"
#include "toy.hpp"

namespace {

int32_t argmax(const std::vector<float>& row) {
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

template <class Sampler>
int32_t draw(Sampler&& sampler, std::vector<float> row) {
  lh::LogitRow peaks(fake::kVocab);
  std::vector<llama_token_data> candidates;
  sampler.read(row.data(), peaks);
  return sampler.sample(peaks, candidates);
}

std::vector<float> random_row(std::mt19937& random) {
  std::normal_distribution<float> normal(0.0F, 3.0F);
  std::vector<float> row(fake::kVocab);
  for (float& x : row) x = normal(random);
  return row;
}

// Creates a chain of libllama's own samplers with the same settings and order.
llama_sampler_ptr reference_chain(const lh_sampling_params& p) {
  llama_sampler_ptr chain(llama_sampler_chain_init(llama_sampler_chain_default_params()));
  const auto add = [&](llama_sampler* s) { llama_sampler_chain_add(chain.get(), s); };
  add(llama_sampler_init_penalties(fake::kVocab, p.repeat_last_n, p.penalty_repeat,
                                   p.penalty_freq, p.penalty_present));
  add(llama_sampler_init_top_n_sigma(p.top_n_sigma));
  add(llama_sampler_init_top_k(p.top_k));
  add(llama_sampler_init_typical(p.typical_p, 1));
  add(llama_sampler_init_top_p(p.top_p, 1));
  add(llama_sampler_init_min_p(p.min_p, 1));
  add(llama_sampler_init_xtc(p.xtc_probability, p.xtc_threshold, 1, p.seed));
  add(llama_sampler_init_temp_ext(p.temperature, p.dynatemp_range, p.dynatemp_exponent));
  add(llama_sampler_init_dist(p.seed));
  return chain;
}

int32_t draw(llama_sampler* chain, const std::vector<float>& row) {
  std::vector<llama_token_data> data;
  for (int32_t i = 0; i < fake::kVocab; ++i) {
    data.push_back({i, row[static_cast<size_t>(i)], 0.0F});
  }
  llama_token_data_array candidates = {data.data(), data.size(), -1, false};
  llama_sampler_apply(chain, &candidates);
  const int32_t token = candidates.data[candidates.selected].id;
  llama_sampler_accept(chain, token);
  return token;
}

}  // namespace

TEST_CASE("the chain draws what libllama's own samplers draw") {
  const auto model = toy::model();
  std::mt19937 random(11);
  const auto pick = [&](std::initializer_list<float> values) {
    return *(values.begin() + random() % values.size());
  };
  for (int round = 0; round < 200; ++round) {
    lh_sampling_params p = toy::greedy();
    p.temperature = pick({0.3F, 0.8F, 1.5F});
    p.top_k = static_cast<int32_t>(pick({0, 1, 5, 40, 1000}));
    p.top_p = pick({1.0F, 0.9F, 0.5F});
    p.min_p = pick({0.0F, 0.05F, 0.3F});
    p.typical_p = pick({1.0F, 0.7F});
    p.top_n_sigma = pick({-1.0F, -1.0F, 1.5F});
    p.repeat_last_n = static_cast<int32_t>(pick({0, 3, 64}));
    p.penalty_repeat = pick({1.0F, 1.3F});
    p.penalty_freq = pick({0.0F, 0.5F});
    p.penalty_present = pick({0.0F, -0.2F});
    p.xtc_probability = pick({0.0F, 0.0F, 0.5F});
    p.dynatemp_range = pick({0.0F, 0.25F});
    p.dynatemp_exponent = pick({1.0F, 2.0F});
    p.seed = static_cast<uint32_t>(random());
    lh::SamplerCache cache;
    lh::Sampler sampler(*model, p, cache);
    const llama_sampler_ptr reference = reference_chain(p);
    for (int step = 0; step < 30; ++step) {
      std::vector<float> row = random_row(random);
      const int32_t expected = draw(reference.get(), row);
      CHECK(draw(sampler, row) == expected);
    }
  }
}

TEST_CASE("a dynamic temperature has a lower limit above 0") {
  const auto model = toy::model();
  std::mt19937 random(5);
  for (const float range : {0.5F, 1.0F, 1e6F}) {
    lh_sampling_params p = toy::greedy();
    p.temperature = 0.5F;
    p.dynatemp_range = range;
    lh::SamplerCache cache;
    lh::Sampler sampler(*model, p, cache);
    std::vector<float> certain(fake::kVocab, -1e4F);
    certain[7] = 1e4F;
    CHECK(draw(sampler, certain) == 7);
    for (int step = 0; step < 20; ++step) {
      const int32_t token = draw(sampler, random_row(random));
      CHECK(token >= 0);
      CHECK(token < fake::kVocab);
    }
  }
}

TEST_CASE("mirostat 1 and 2 draw what libllama's own samplers draw") {
  const auto model = toy::model();
  std::mt19937 random(3);
  for (int32_t version = 1; version <= 2; ++version) {
    lh_sampling_params p = toy::greedy();
    p.temperature = 0.9F;
    p.mirostat = version;
    p.seed = 99;
    lh::SamplerCache cache;
    lh::Sampler sampler(*model, p, cache);
    llama_sampler_ptr reference(
        llama_sampler_chain_init(llama_sampler_chain_default_params()));
    llama_sampler_chain_add(reference.get(), llama_sampler_init_temp(p.temperature));
    llama_sampler_chain_add(
        reference.get(),
        version == 1
            ? llama_sampler_init_mirostat(fake::kVocab, 99, p.mirostat_tau,
                                          p.mirostat_eta, 100)
            : llama_sampler_init_mirostat_v2(99, p.mirostat_tau, p.mirostat_eta));
    for (int step = 0; step < 50; ++step) {
      std::vector<float> row = random_row(random);
      const int32_t expected = draw(reference.get(), row);
      CHECK(draw(sampler, row) == expected);
    }
  }
}

TEST_CASE("bias, ignore_eos and penalties move the greedy choice") {
  const auto model = toy::model();
  lh::SamplerCache cache;
  std::vector<float> row(fake::kVocab, 0.0F);
  row[fake::kEos] = 5.0F;
  row[7] = 3.0F;
  row[8] = 2.0F;

  auto p = toy::greedy();
  CHECK(draw(lh::Sampler(*model, p, cache), row) == fake::kEos);
  p.ignore_eos = 1;
  CHECK(draw(lh::Sampler(*model, p, cache), row) == 7);
  const int32_t tokens[] = {7};
  const float values[] = {-INFINITY};
  p.n_logit_bias = 1;
  p.logit_bias_token = tokens;
  p.logit_bias_value = values;
  CHECK(draw(lh::Sampler(*model, p, cache), row) == 8);

  p.n_logit_bias = 0;
  p.repeat_last_n = -1;
  p.penalty_repeat = 2.0F;
  lh::Sampler penalised(*model, p, cache);
  penalised.see(7);
  penalised.see(1 << 30);  // a prompt may have tokens outside the vocabulary
  CHECK(draw(penalised, row) == 8);
}

TEST_CASE("no token that ends an answer is drawn before min_tokens") {
  const auto model = toy::model();
  lh::SamplerCache cache;
  std::vector<float> row(fake::kVocab, 0.0F);
  row[fake::kEos] = 5.0F;
  row[7] = 4.0F;
  row[8] = 3.0F;
  auto p = toy::greedy();
  const int32_t stop[] = {9, 7, 7};
  p.n_stop_token_ids = 3;
  p.stop_token_ids = stop;
  p.min_tokens = 2;
  for (const float temperature : {0.0F, 0.01F}) {
    p.temperature = temperature;
    lh::Sampler sampler(*model, p, cache);
    CHECK_FALSE(sampler.is_free());
    sampler.see(1);  // tokens of the prompt are not included
    CHECK(draw(sampler, row) == 8);
    CHECK(draw(sampler, row) == 8);
    CHECK(draw(sampler, row) == fake::kEos);
  }
  p.ignore_eos = 1;
  p.temperature = 0;
  lh::Sampler sampler(*model, p, cache);
  for (const int32_t expected : {8, 8, 7, 7}) CHECK(draw(sampler, row) == expected);
}

TEST_CASE("stop tokens end an answer, also the model's own with ignore_eos") {
  const auto model = toy::model();
  lh::SamplerCache cache;
  std::vector<float> row(fake::kVocab, 0.0F);
  row[fake::kEos] = 5.0F;
  auto p = toy::greedy();
  p.ignore_eos = 1;
  const int32_t stop[] = {7, fake::kEos};
  p.stop_token_ids = stop;
  for (const int32_t n : {1, 2}) {
    p.n_stop_token_ids = n;
    lh::Sampler sampler(*model, p, cache);
    CHECK(sampler.ends_answer(7));
    CHECK(sampler.ends_answer(fake::kEos));
    CHECK_FALSE(sampler.ends_answer(8));
    CHECK((draw(sampler, row) == fake::kEos) == (n == 2));
  }
  std::vector<float> only(fake::kVocab, -INFINITY);
  only[7] = 1.0F;
  p.min_tokens = 1;
  lh::Sampler sampler(*model, p, cache);
  CHECK(draw(sampler, only) == lh::Sampler::kNothingLeft);
  CHECK(sampler.why_stuck("").find("min_tokens") != std::string::npos);
}

TEST_CASE("greedy takes the first of the largest, whatever was changed") {
  const auto model = toy::model();
  std::mt19937 random(17);
  const auto below = [&](uint32_t n) { return static_cast<int32_t>(random() % n); };
  for (int round = 0; round < 500; ++round) {
    // Only few different values, so that some changed logits equal other logits.
    std::vector<float> row(fake::kVocab);
    for (float& x : row) x = static_cast<float>(below(4));
    std::vector<float> expected = row;
    auto p = toy::greedy();
    p.ignore_eos = below(2);
    if (p.ignore_eos != 0) expected[fake::kEos] = -INFINITY;
    const int32_t tokens[] = {below(fake::kVocab), below(fake::kVocab)};
    const float values[] = {static_cast<float>(below(5) - 2), -INFINITY};
    p.n_logit_bias = below(3);
    p.logit_bias_token = tokens;
    p.logit_bias_value = values;
    for (int32_t i = 0; i < p.n_logit_bias; ++i) {
      expected[static_cast<size_t>(tokens[i])] += values[i];
    }
    const int32_t seen = argmax(row);
    p.repeat_last_n = below(2);
    p.penalty_present = static_cast<float>(below(3) - 1);
    if (p.repeat_last_n != 0) expected[static_cast<size_t>(seen)] -= p.penalty_present;

    lh::SamplerCache cache;
    lh::Sampler sampler(*model, p, cache);
    sampler.see(seen);
    CHECK(draw(sampler, row) == argmax(expected));
  }
}

TEST_CASE("a penalty window forgets") {
  const auto model = toy::model();
  lh_sampling_params p = toy::greedy();
  p.repeat_last_n = 2;
  p.penalty_freq = 1.0F;
  lh::Penalties penalties(p);
  std::vector<float> row(4, 0.0F);
  for (const int32_t token : {0, 0, 1}) penalties.accept(token);
  penalties.apply(row.data());
  CHECK(row == std::vector<float>{-1, -1, 0, 0});
}

TEST_CASE("logits that are no numbers are an error, a mask without a way out ends") {
  const auto model = toy::model();
  lh::SamplerCache cache;
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> row(fake::kVocab, bad == -INFINITY ? bad : 0.0F);
    row[5] = bad;
    lh::Sampler sampler(*model, toy::greedy(), cache);
    CHECK_THROWS_AS(draw(sampler, row), lh::Error);
  }
  std::vector<float> only_eos(fake::kVocab, -INFINITY);
  only_eos[fake::kEos] = 1.0F;
  auto p = toy::greedy();
  p.ignore_eos = 1;
  for (const float temperature : {0.0F, 1.0F}) {
    p.temperature = temperature;
    lh::Sampler sampler(*model, p, cache);
    CHECK(draw(sampler, only_eos) == lh::Sampler::kNothingLeft);
  }
}

TEST_CASE("settings out of range are named") {
  const auto model = toy::model();
  const auto message = [&](auto change) -> std::string {
    lh_sampling_params p = toy::greedy();
    change(p);
    lh::SamplerCache cache;
    try {
      lh::Sampler sampler(*model, p, cache);
    } catch (const lh::Error& e) {
      return e.what();
    }
    return "";
  };
  using P = lh_sampling_params;
  CHECK(message([](P& p) { p.temperature = NAN; }).find("temperature") == 0);
  CHECK(message([](P& p) { p.temperature = INFINITY; }).find("temperature") == 0);
  CHECK(message([](P& p) { p.top_p = 1.5F; }).find("top_p") == 0);
  CHECK(message([](P& p) { p.min_p = -1; }).find("min_p") == 0);
  CHECK(message([](P& p) { p.repeat_last_n = -2; }).find("repeat_last_n") == 0);
  CHECK(message([](P& p) { p.penalty_repeat = 0; }).find("penalty_repeat") == 0);
  CHECK(message([](P& p) { p.mirostat = 3; }).find("mirostat") == 0);
  CHECK(message([](P& p) { p.n_logit_bias = 1; }).find("logit_bias_token") == 0);
  CHECK(message([](P& p) {
          p.n_dry_breakers = 1;
          p.dry_multiplier = 1;
        }).find("dry_breakers") == 0);
  static const int32_t outside[] = {fake::kVocab};
  static const float zero[] = {0.0F};
  CHECK(message([](P& p) {
          p.n_logit_bias = 1;
          p.logit_bias_token = outside;
          p.logit_bias_value = zero;
        }).find("260") != std::string::npos);
  CHECK(message([](P& p) { p.min_tokens = -1; }).find("min_tokens") == 0);
  CHECK(message([](P& p) {
          p.min_tokens = 1;
          p.grammar = "root ::= \"a\"";
        }).find("min_tokens cannot be given with a grammar") == 0);
  CHECK(message([](P& p) { p.n_stop_token_ids = 1; }).find("stop_token_ids") == 0);
  CHECK(message([](P& p) {
          p.n_stop_token_ids = 1;
          p.stop_token_ids = outside;
        }).find("stop_token_ids element must be between 0 and 259") == 0);
  CHECK(message([](P&) {}).empty());
}
