// Tests the engine step by step, on the toy model.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <thread>

#include "engine_fixture.hpp"
#include "guard.hpp"

using toy::Request;

namespace {

std::vector<int32_t> tokens_of(const lh_client_info& info) {
  return {info.tokens, info.tokens + info.n_generated};
}

// Tokens of the answer to kHello without stop texts.
std::vector<int32_t> plain_tokens(Fixture& f, int32_t n) {
  toy::submit(f.engine, Request(1, kHello, n));
  toy::run_all(f.engine);
  std::vector<int32_t> tokens = tokens_of(f.engine.get(1));
  f.engine.release(1);
  REQUIRE(tokens.size() == static_cast<size_t>(n));
  return tokens;
}

}  // namespace

TEST_CASE("clients decode together and each gets what it gets alone") {
  Fixture f;
  for (int64_t id = 0; id < 4; ++id) {
    toy::submit(f.engine, Request(id, toy::tokens("prompt " + std::to_string(id)), 20));
  }
  toy::run_all(f.engine);
  for (int64_t id = 0; id < 4; ++id) {
    CHECK(f.text(id) == fake::answer(toy::tokens("prompt " + std::to_string(id)), 20));
  }
  CHECK(fake::n_cells_left() == 0);
  CHECK(f.engine.info().n_cells_used == 0);
  CHECK(f.engine.info().n_seq_used == 0);
}

TEST_CASE("max_tokens counts exactly; a sequence id is free as soon as its client ends") {
  Endless f;
  toy::submit(f.engine, Request(1, kHello, 1));
  toy::submit(f.engine, Request(2, kHello, 5));
  CHECK(toy::run(f.engine).events == std::vector<int64_t>{1});
  CHECK(f.engine.get(1).n_generated == 1);
  CHECK(f.engine.get(1).seed == 1234);
  CHECK(f.engine.get(1).finish == LH_FINISH_LENGTH);
  CHECK(f.engine.info().n_seq_used == 1);
  CHECK(toy::run(f.engine).events == std::vector<int64_t>{2});
  CHECK(f.engine.get(2).n_generated == 5);
  CHECK(f.engine.stats().n_generated == 6);
}

TEST_CASE("the end-of-generation token ends a client and is not in its text") {
  Fixture f;
  fake::settings().eos_share = 1;
  toy::submit(f.engine, Request(1, kHello, 5));
  toy::run_all(f.engine);
  const lh_client_info info = f.engine.get(1);
  CHECK(info.finish == LH_FINISH_EOG);
  CHECK(info.n_generated == 0);
  CHECK(std::string(info.text).empty());
}

TEST_CASE("a client may be submitted while others run") {
  Endless f;
  toy::submit(f.engine, Request(1, kHello, 30));
  CHECK(toy::run(f.engine, 10).result.n_active == 1);
  toy::submit(f.engine, Request(2, toy::tokens("later"), 30));
  toy::run_all(f.engine);
  CHECK(f.text(1) == fake::answer(kHello, 30));
  CHECK(f.text(2) == fake::answer(toy::tokens("later"), 30));
}

TEST_CASE("a held prefix is computed once and forked") {
  for (const bool unified : {true, false}) {
    Endless f(512, 4, unified);
    const std::string codebook(50, 'c');
    toy::submit(f.engine, Request(100, toy::tokens(codebook), 0));
    CHECK(toy::run(f.engine).events == std::vector<int64_t>{100});
    CHECK(f.engine.get(100).state == LH_STATE_HELD);
    for (int64_t id = 1; id <= 3; ++id) {
      const auto prompt = toy::tokens(codebook + std::to_string(id));
      toy::submit(f.engine, Request(id, prompt, 8).fork_from(100));
      CHECK(f.engine.get(id).n_reused == 50);
    }
    f.engine.release(100);
    CHECK(f.engine.info().n_cells_used == (unified ? 50 : 150));
    toy::run_all(f.engine);
    CHECK(f.engine.stats().n_prefill == 53);
    CHECK(f.engine.stats().n_reused == 150);
    for (int64_t id = 1; id <= 3; ++id) {
      CHECK(f.text(id) == fake::answer(toy::tokens(codebook + std::to_string(id)), 8));
    }
    CHECK(f.engine.info().n_cells_used == 0);
    CHECK(fake::n_cells_left() == 0);
  }
}

TEST_CASE("fork_from must be held and must be a prefix of the prompt") {
  Fixture f;
  toy::submit(f.engine, Request(100, toy::tokens("abc"), 0));
  CHECK_THROWS_WITH_AS(
      toy::submit(f.engine, Request(1, toy::tokens("abcd"), 1).fork_from(100)),
      "fork_from 100 is not held", lh::Error);
  toy::run(f.engine);
  CHECK_THROWS_AS(toy::submit(f.engine, Request(1, toy::tokens("abX"), 1).fork_from(100)),
                  lh::Error);
  CHECK_THROWS_AS(toy::submit(f.engine, Request(1, toy::tokens("abc"), 1).fork_from(100)),
                  lh::Error);
  CHECK_THROWS_AS(toy::submit(f.engine, Request(1, toy::tokens("abcd"), 1).fork_from(5)),
                  lh::Error);
  CHECK(f.engine.info().n_seq_used == 1);
}

TEST_CASE("prompts that are equal fork from all of it and draw from its logits") {
  for (const bool unified : {true, false}) {
    Endless f(512, 4, unified);
    toy::submit(f.engine, Request(100, kHello, 0).whole());
    CHECK(toy::run(f.engine).events == std::vector<int64_t>{100});
    toy::submit(f.engine, Request(1, kHello, 8).fork_from(100).watch());
    toy::submit(f.engine, Request(2, kHello, 1).fork_from(100));
    toy::submit(f.engine, Request(3, kHello, 8).fork_from(100));
    // The first token needs no batch; a request with one token then ends.
    const toy::Ran ran = toy::run(f.engine);
    CHECK(ran.events == std::vector<int64_t>{1, 2});
    CHECK(ran.result.n_steps == 0);
    CHECK(f.text(2) == fake::answer(kHello, 1));
    f.engine.pause(3);  // paused with its first token
    f.engine.release(100);
    toy::run_all(f.engine);
    f.engine.resume(3);
    toy::run_all(f.engine);
    CHECK(f.text(1) == fake::answer(kHello, 8));
    CHECK(f.text(3) == fake::answer(kHello, 8));
    CHECK(f.engine.stats().n_prefill == static_cast<int64_t>(kHello.size()));
    CHECK(f.engine.info().n_cells_used == 0);
    CHECK(fake::n_cells_left() == 0);
  }
}

TEST_CASE("what was forked whole and paused before its first token draws it later") {
  Endless f(512, 4, false);
  toy::submit(f.engine, Request(100, kHello, 0).whole());
  toy::run(f.engine);
  toy::submit(f.engine, Request(1, kHello, 8).fork_from(100));
  f.engine.pause(1);
  f.engine.release(100);
  f.engine.resume(1);
  toy::run_all(f.engine);
  CHECK(f.text(1) == fake::answer(kHello, 8));
}

TEST_CASE("no prefix forks from one of the same tokens") {
  Fixture f;
  toy::submit(f.engine, Request(100, kHello, 0).whole());
  toy::run(f.engine);
  CHECK_THROWS_WITH_AS(
      toy::submit(f.engine, Request(101, kHello, 0).whole().fork_from(100)),
      "request 101 does not start with the tokens of its fork_from", lh::Error);
}

TEST_CASE("a time limit gives control back after a step") {
  Endless f;
  fake::settings().decode_ms = 5;
  toy::submit(f.engine, Request(1, kHello, 100));
  lh_run_params params{};
  params.max_time_ms = 1;
  int64_t event = 0;
  lh_run_result result{};
  std::string message;
  CHECK(f.engine.run(params, &event, 1, result, message) == LH_OK);
  CHECK(result.n_steps == 1);
  CHECK(result.n_active == 1);
}

TEST_CASE("events that do not fit are those of the next run") {
  Endless f;
  for (const int64_t id : {1, 2, 3}) toy::submit(f.engine, Request(id, kHello, 4));
  lh_run_params params{};
  params.struct_size = sizeof(params);
  lh_run_result result{};
  int64_t events[2] = {};
  const auto run = [&](int64_t* to, int32_t capacity) {
    return lh_engine_run(&f.engine, &params, to, capacity, &result, nullptr);
  };
  CHECK(run(events, 0) == LH_INVALID_ARGUMENT);
  CHECK(run(nullptr, 2) == LH_INVALID_ARGUMENT);
  CHECK(fake::counts().n_decodes == 0);
  CHECK(run(events, 2) == LH_OK);
  CHECK(result.n_events == 2);
  CHECK(events[0] == 1);
  CHECK(events[1] == 2);
  CHECK(run(events, 2) == LH_OK);
  CHECK(result.n_events == 1);
  CHECK(events[0] == 3);
  CHECK(result.n_steps == 0);
}

TEST_CASE("cancelling keeps the text so far") {
  Endless f;
  toy::submit(f.engine, Request(1, kHello, 50));
  toy::run(f.engine, 10);
  f.engine.end(1, LH_FINISH_CANCELLED, nullptr);
  CHECK(f.engine.get(1).finish == LH_FINISH_CANCELLED);
  CHECK(f.engine.get(1).state == LH_STATE_FINISHED);
  CHECK(f.text(1) == fake::answer(kHello, 10));
  CHECK_THROWS_AS(f.engine.end(1, LH_FINISH_EOG, nullptr), lh::Error);
  f.engine.release(1);
  CHECK_THROWS_AS(f.engine.get(1), lh::Error);
}

TEST_CASE("stop texts end a client before them") {
  Endless f;
  const std::string whole = fake::answer(kHello, 30);
  const std::string stop_text = whole.substr(whole.size() / 2, 3);
  toy::submit(f.engine, Request(1, kHello, 30).stop({stop_text}));
  toy::run_all(f.engine);
  CHECK(f.engine.get(1).finish == LH_FINISH_STOP);
  CHECK(f.text(1) == whole.substr(0, whole.find(stop_text)));
}

TEST_CASE("stop tokens end a client before them, not within min_tokens") {
  Endless f;
  const std::vector<int32_t> all = plain_tokens(f, 30);
  const int32_t stop = all[12];
  const auto first =
      static_cast<int32_t>(std::find(all.begin(), all.end(), stop) - all.begin());
  Request request(1, kHello, 30);
  request.sampling.n_stop_token_ids = 1;
  request.sampling.stop_token_ids = &stop;
  request.native.logprobs = 1;
  f.engine.submit(request.native);
  Request longer(2, kHello, 30);
  longer.sampling = request.sampling;
  longer.sampling.min_tokens = first + 1;
  longer.native.draft = 1;
  f.engine.submit(longer.native);
  toy::run_all(f.engine);

  const lh_client_info before = f.engine.get(1);
  CHECK(before.finish == LH_FINISH_STOP);
  CHECK(before.complete == 1);
  CHECK(before.n_logprobs == first);
  CHECK(tokens_of(before) == std::vector<int32_t>(all.begin(), all.begin() + first));
  // Within min_tokens the stop token is not drawn, so the answer is a different text.
  const std::vector<int32_t> later = tokens_of(f.engine.get(2));
  CHECK(later.size() > static_cast<size_t>(first));
  CHECK(std::equal(all.begin(), all.begin() + first, later.begin()));
  CHECK(std::count(later.begin(), later.end(), stop) == 0);
}

TEST_CASE("stop texts that are complete within min_tokens do not end a client") {
  Endless f;
  const std::vector<int32_t> all = plain_tokens(f, 30);
  const auto at = std::find_if(all.begin(), all.end(),
                               [](int32_t token) { return token > 0 && token < 0x80; });
  REQUIRE(at != all.end());
  const auto n = static_cast<int32_t>(at - all.begin()) + 1;  // ends with the stop text
  const std::string text(1, static_cast<char>(*at));
  for (const int32_t least : {0, n - 1, n}) {
    CAPTURE(least);
    Request request(1, kHello, 30);
    request.stop({text});
    request.sampling.min_tokens = least;
    f.engine.submit(request.native);
    toy::run_all(f.engine);
    CHECK((f.engine.get(1).n_generated == n) == (least < n));
    f.engine.release(1);
  }
}

TEST_CASE("bad requests are refused with a reason and leave no trace") {
  Fixture f;
  toy::submit(f.engine, Request(1, kHello, 5));
  CHECK_THROWS_WITH_AS(toy::submit(f.engine, Request(1, kHello, 5)),
                       "a request with id 1 exists already", lh::Error);
  CHECK_THROWS_AS(toy::submit(f.engine, Request(2, {}, 5)), lh::Error);
  CHECK_THROWS_AS(toy::submit(f.engine, Request(2, kHello, -1)), lh::Error);
  CHECK_THROWS_AS(
      toy::submit(f.engine, Request(2, toy::tokens(std::string(257, 'x')), 1)),
      lh::Error);
  Request no_sampling(2, kHello, 5);
  no_sampling.native.sampling = nullptr;
  CHECK_THROWS_AS(f.engine.submit(no_sampling.native), lh::Error);
  Request hot(2, kHello, 5);
  hot.sampling.temperature = -INFINITY;
  CHECK_THROWS_AS(toy::submit(f.engine, hot), lh::Error);
  CHECK_THROWS_AS(toy::submit(f.engine, Request(2, kHello, 5).stop({""})), lh::Error);
  CHECK(f.engine.info().n_seq_used == 1);
  const std::vector<int64_t> unknown = {77};
  CHECK_THROWS_AS(toy::run(f.engine, 1, &unknown), lh::Error);
}

TEST_CASE("no sequence id left is a status of its own") {
  Fixture f(256, 1);
  toy::submit(f.engine, Request(1, kHello, 5));
  try {
    toy::submit(f.engine, Request(2, kHello, 5));
    FAIL("a second sequence id was handed out");
  } catch (const lh::Error& e) {
    CHECK(e.code() == LH_NO_SPACE);
  }
}

TEST_CASE("reset forgets everything, and the engine goes on") {
  Fixture f;
  toy::submit(f.engine, Request(100, kHello, 0));
  toy::run(f.engine);
  toy::submit(f.engine, Request(1, toy::tokens("hello you"), 50).fork_from(100));
  toy::run(f.engine, 2);
  f.engine.reset();
  CHECK(fake::n_cells_left() == 0);
  CHECK(f.engine.info().n_cells_used == 0);
  CHECK(f.engine.stats().n_cells_max > 5);
  toy::submit(f.engine, Request(1, kHello, 1));
  toy::run_all(f.engine);
  CHECK(f.text(1) == fake::answer(kHello, 1));
}

TEST_CASE("engine parameters out of range are refused before libllama sees them") {
  fake::reset();
  const auto model = toy::model();
  const auto refused = [&](auto change) {
    lh_engine_params p = toy::engine_params(256, 4, true);
    change(p);
    CHECK_THROWS_AS(lh_engine(*model, p), lh::Error);
  };
  using P = lh_engine_params;
  refused([](P& p) { p.n_ctx = 0; });
  refused([](P& p) { p.n_seq_max = 0; });
  refused([](P& p) { p.n_seq_max = 257; });
  refused([](P& p) { p.n_batch = 3; });
  refused([](P& p) { p.n_ubatch = 64; });
  refused([](P& p) { p.n_threads = -1; });
  refused([](P& p) { p.flash_attn = 2; });
  refused([](P& p) { p.type_k = 10000; });
  refused([](P& p) { p.rope_scaling_type = 4; });
  refused([](P& p) { p.rope_freq_base = -1.0F; });
  refused([](P& p) { p.rope_freq_scale = std::numeric_limits<float>::quiet_NaN(); });
  refused([](P& p) { p.yarn_ext_factor = std::numeric_limits<float>::infinity(); });
  refused([](P& p) { p.yarn_orig_ctx = -1; });
}

TEST_CASE(
    "numbers of tokens and outputs are such that ggml's tensors start at cache lines") {
  fake::reset();
  const auto model = toy::model();
  const auto fills_lines = [](uint32_t n) { return (n + 7) / 8 * 32 % 64 == 0; };
  for (int32_t n_seq_max = 1; n_seq_max <= 80; ++n_seq_max) {
    CAPTURE(n_seq_max);
    lh_engine_params params = toy::engine_params(100 * 512, n_seq_max, false);
    params.n_batch = params.n_ubatch = 512;
    const lh_engine engine(*model, params);
    const llama_context_params& used = fake::last_params();
    CHECK(used.n_outputs_max >= static_cast<uint32_t>(n_seq_max));
    CHECK(fills_lines(used.n_outputs_max));
    CHECK(used.n_ubatch % used.n_seq_max == 0);
    CHECK(fills_lines(used.n_ubatch));
    CHECK(used.n_ubatch >= 512);
    CHECK(used.n_batch >= used.n_ubatch);
  }
}

TEST_CASE(
    "a deterministic engine's n_ubatch stays where it decides how prompts are cut") {
  fake::reset();
  const auto model = toy::model();
  lh_engine_params params = toy::deterministic_params(64, 40);
  params.n_batch = params.n_ubatch = 512;
  CHECK(lh_engine(*model, params).info().n_ubatch == 560);
  params.n_batch = 1024;
  CHECK(lh_engine(*model, params).info().n_ubatch == 512);
}

TEST_CASE("prompts share n_batch whatever libllama's batches may hold") {
  for (const bool unified : {false, true}) {
    Fixture f(10 * 64, 10, unified);
    toy::submit(f.engine, toy::Request(0, toy::tokens(std::string(60, 'x')), 1));
    toy::run(f.engine, 1);
    CHECK(fake::last_params().n_ubatch == 60);
    CHECK(f.engine.get(0).n_pending == 60 - 32);
  }
}

TEST_CASE("the high-water mark is of one call or of all") {
  Endless f(256, 2, false);
  for (int64_t id = 0; id < 3; ++id) {  // one after the other, the first the longest
    const auto prompt = toy::tokens(std::string(40 - 10 * id, 'x'));
    toy::submit(f.engine, toy::Request(id, prompt, 3).of_call(id));
    toy::run_all(f.engine);
    f.engine.release(id);
  }
  CHECK(f.engine.stats().n_cells_max == 42);
  CHECK(f.engine.stats(1).n_cells_max == 32);
  CHECK(f.engine.stats(2).n_cells_max == 22);
}

TEST_CASE("several threads use one engine at once") {
  Fixture f(4096, 8);
  std::atomic<int> n_right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t round = 0; round < 20; ++round) {
        const int64_t id = t * 100 + round;
        const auto prompt = toy::tokens("thread " + std::to_string(id));
        toy::submit(f.engine, Request(id, prompt, 10));
        const std::vector<int64_t> mine = {id};
        while (f.engine.get(id).state <= LH_STATE_DECODE) toy::run(f.engine, 3, &mine);
        if (f.engine.get(id).text == fake::answer(prompt, 10)) ++n_right;
        f.engine.release(id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(n_right == 160);
  CHECK(fake::n_cells_left() == 0);
}

TEST_CASE(
    "a model that cannot generate is refused when an engine or a comparison is made") {
  fake::reset();
  const auto model = toy::model();
  const lh_engine_params params = toy::engine_params(256, 4, true);
  lh_engine* engine = nullptr;
  lh_comparison* comparison = nullptr;
  lh_error error{};
  const auto says = [&](const char* text) {
    return std::string(error.message).find(text) != std::string::npos;
  };
  fake::settings().encoder = true;
  CHECK(lh_engine_new(model.get(), &params, &engine, &error) == LH_CONTEXT_ERROR);
  CHECK(says("the model has an encoder"));
  CHECK(lh_comparison_new(model.get(), model.get(), 1, &comparison, &error) ==
        LH_MODEL_ERROR);
  CHECK(says("the model has an encoder"));
  fake::settings().encoder = false;
  fake::settings().memory = false;
  CHECK(lh_engine_new(model.get(), &params, &engine, &error) == LH_CONTEXT_ERROR);
  CHECK(says("keeps no memory of a text"));
  CHECK(lh_comparison_new(model.get(), model.get(), 1, &comparison, &error) ==
        LH_MODEL_ERROR);
  CHECK(says("keeps no memory of a text"));
  CHECK(engine == nullptr);
  CHECK(comparison == nullptr);
  fake::reset();
  fake::settings().recurrent = true;
  const lh_engine_params deterministic = toy::deterministic_params(64, 4);
  CHECK(lh_engine_new(model.get(), &deterministic, &engine, &error) == LH_CONTEXT_ERROR);
  CHECK(says("not possible with a recurrent model"));
  fake::reset();
}

TEST_CASE("a model stays as long as anything that was made on it") {
  fake::reset();
  lh_error error{};
  const lh_engine_params engine_params = toy::engine_params(256, 4, true);
  lh_embedder_params embedder_params;
  lh_embedder_default_params(&embedder_params);
  embedder_params.n_batch = 32;
  embedder_params.n_seq_max = 4;
  embedder_params.n_threads = 1;
  const std::array<std::function<std::function<void()>(lh_model*)>, 3> makers{
      [&](lh_model* model) -> std::function<void()> {
        lh_engine* engine = nullptr;
        CHECK(lh_engine_new(model, &engine_params, &engine, &error) == LH_OK);
        return [engine] { lh_engine_free(engine); };
      },
      [&](lh_model* model) -> std::function<void()> {
        lh_embedder* embedder = nullptr;
        CHECK(lh_embedder_new(model, &embedder_params, &embedder, &error) == LH_OK);
        return [embedder] { lh_embedder_free(embedder); };
      },
      [&](lh_model* model) -> std::function<void()> {
        lh_comparison* comparison = nullptr;
        CHECK(lh_comparison_new(model, model, 1, &comparison, &error) == LH_OK);
        return [comparison] { lh_comparison_free(comparison); };
      },
  };
  for (const auto& make : makers) {
    lh_model* model = lh_model::hand_out(toy::model());
    const std::weak_ptr<const lh_model> seen = model->held();
    const std::function<void()> free_it = make(model);
    lh_model_free(model);
    CHECK(!seen.expired());
    free_it();
    CHECK(seen.expired());
  }
  lh_model* unused = lh_model::hand_out(toy::model());
  const std::weak_ptr<const lh_model> seen = unused->held();
  lh_model_free(unused);
  CHECK(seen.expired());
}
