// Tests the builders of batches, which compute tokens from clients and positions.
#include <doctest/doctest.h>

#include <deque>
#include <string>

#include "batch_builder.hpp"
#include "padding.hpp"
#include "prefix.hpp"

namespace {

constexpr int32_t kSequences = 32;

// Returns limits for streams of 256 cells.
lh::BatchLimits streams() {
  lh::BatchLimits limits{};
  limits.capacity = limits.n_prompt = limits.n_ubatch = 128;
  limits.n_ctx_seq = limits.n_paddable = 256;
  limits.has_streams = true;
  return limits;
}

lh::BatchLimits pool() {
  lh::BatchLimits limits = streams();
  limits.has_streams = false;
  limits.n_paddable = 0;
  return limits;
}

// Fake answer with the properties that builders use: the row of its last token is read.
class LastRow : public lh::Task {
 public:
  LastRow() : Task(Kind::kAnswer) {}
  void read(lh::Client&, int32_t, float*, lh::LogitRow&) noexcept override {}
  void settle(const lh::StepServices&, lh::BatchPart&, lh::LogitRow&) override {}
};

// Fake score: its tokens after the prompt are a path.
class OnPath final : public lh::Task {
 public:
  OnPath() : Task(Kind::kScore) {}
  void read(lh::Client&, int32_t, float*, lh::LogitRow&) noexcept override {}
  void settle(const lh::StepServices&, lh::BatchPart&, lh::LogitRow&) override {}
};

// Clients and the positions of their sequences.
struct Clients {
  // Adds a client with n_prompt tokens, of which n_decoded are in the cache.
  lh::Client& add(int32_t seq_id, int32_t n_prompt, int32_t n_decoded = 0) {
    lh::Client& client = clients.emplace_back();
    client.task = std::make_unique<LastRow>();
    client.seq_id = seq_id;
    client.tokens.assign(static_cast<size_t>(n_prompt), 7);
    client.n_prompt = n_prompt;
    client.max_tokens = 50;
    if (n_decoded > 0) positions.set(seq_id, n_decoded);
    pointers.push_back(&client);
    return client;
  }
  // Adds a client with one token to decode.
  lh::Client& add_answer(int32_t seq_id, int32_t n_tokens = 5) {
    lh::Client& client = add(seq_id, n_tokens, n_tokens - 1);
    client.n_prompt = n_tokens - 1;
    client.state = LH_STATE_DECODE;
    return client;
  }

  lh::Positions positions{kSequences};
  std::deque<lh::Client> clients;
  std::vector<lh::Client*> pointers;
};

// Returns the sequence id of each token of a batch; tokens with logits are marked.
std::string ids(const lh::BatchBuilder& builder) {
  const llama_batch& batch = builder.batch();
  std::string out;
  for (int32_t i = 0; i < batch.n_tokens; ++i) {
    out += std::to_string(batch.seq_id[i][0]) + (batch.logits[i] != 0 ? "* " : " ");
  }
  return out;
}

}  // namespace

TEST_CASE("a builder without clients that have something to decode builds nothing") {
  Clients c;
  c.add(0, 4, 4);
  lh::MixedBatch mixed(c.positions, streams());
  lh::UniformBatch uniform(c.positions, streams());
  for (lh::BatchBuilder* builder :
       std::initializer_list<lh::BatchBuilder*>{&mixed, &uniform}) {
    CHECK_FALSE(builder->build(c.pointers, 0));
    CHECK(builder->batch().n_tokens == 0);
  }
}

TEST_CASE("in a pool answers come with whole prompts") {
  Clients c;
  c.add(1, 3);
  c.add_answer(0);
  lh::MixedBatch builder(c.positions, pool());
  CHECK(builder.build(c.pointers, 0));
  CHECK(ids(builder) == "0* 1 1 1* ");
  CHECK(builder.parts().size() == 2);
  CHECK(builder.parts()[1].i_logits == 3);
  CHECK(builder.padding().empty());
}

TEST_CASE("with streams the last token of a prompt waits, and short parts are padded") {
  Clients c;
  c.add(1, 4);
  c.add_answer(0);
  lh::MixedBatch builder(c.positions, streams());
  CHECK(builder.build(c.pointers, 0));
  CHECK(ids(builder) == "0* 0 0 1 1 1 ");
  REQUIRE(builder.padding().size() == 1);
  CHECK(builder.padding()[0].seq_id == 0);
  CHECK(builder.padding()[0].position == 5);
}

TEST_CASE("a prefix has no logits, and its last token does not wait") {
  Clients c;
  c.add_answer(0);
  c.add(3, 4).task = std::make_unique<lh::Prefix>(/*is_whole=*/false);
  lh::BatchLimits limits = streams();
  limits.n_paddable = 0;
  lh::MixedBatch builder(c.positions, limits);
  CHECK(builder.build(c.pointers, 0));
  CHECK(ids(builder) == "0* 3 3 3 3 ");
}

TEST_CASE("new prompts exchange their ids, those with cells stay") {
  Clients c;
  c.add(0, 9, 2);
  const lh::Client& shorter = c.add(1, 5);
  const lh::Client& longer = c.add(2, 8);
  lh::MixedBatch builder(c.positions, streams());
  CHECK(builder.build(c.pointers, 0));
  CHECK(c.clients[0].seq_id == 0);
  CHECK(longer.seq_id == 1);
  CHECK(shorter.seq_id == 2);
}

TEST_CASE("prompts before answers, each filled up to whole groups of rows") {
  Clients c;
  c.add_answer(0);
  c.add(1, 3);
  c.add(2, 9);
  lh::UniformBatch builder(c.positions, streams());
  CHECK(builder.build(c.pointers, 0));
  REQUIRE(builder.parts().size() == 2);
  CHECK(builder.batch().n_tokens == 16 + 8);
  CHECK(builder.batch().seq_id[0][0] == 2);  // ids decrease: each part is computed
                                             // separately
  CHECK(builder.batch().logits[8] != 0);
  CHECK(builder.parts()[0].n_padding == 5);
  CHECK(builder.parts()[1].n_padding == 7);
}

TEST_CASE("what is computed again after a pause ends where it had come to") {
  Clients c;
  lh::Client& client = c.add(0, 20);
  client.n_prompt = 12;  // and eight generated, the last one not decoded
  client.n_before = 19;
  lh::UniformBatch builder(c.positions, streams());
  CHECK(builder.build(c.pointers, 0));
  REQUIRE(builder.parts().size() == 1);
  CHECK(builder.parts()[0].n_tokens == 19);
  CHECK(builder.parts()[0].i_logits == -1);
  c.positions.set(0, 19);
  CHECK(builder.build(c.pointers, 0));
  CHECK(ids(builder) == "0* 1* 2* 3* 4* 5* 6* 7* ");  // the same as for any answer
}

TEST_CASE("answers come in whole groups of sequences, whichever of them are there") {
  const auto answers = [](const std::vector<int32_t>& seq_ids) {
    Clients c;
    for (const int32_t id : seq_ids) c.add_answer(id);
    lh::UniformBatch builder(c.positions, streams());
    CHECK(builder.build(c.pointers, 0));
    CHECK(builder.padding().size() ==
          static_cast<size_t>(builder.batch().n_tokens) - seq_ids.size());
    return ids(builder);
  };
  const std::string first = "0* 1* 2* 3* 4* 5* 6* 7* ";
  const std::string third = "16* 17* 18* 19* 20* 21* 22* 23* ";
  CHECK(answers({0}) == first);
  CHECK(answers({3, 7}) == first);
  CHECK(answers({20}) == third);
  CHECK(answers({7, 16}) == first + third);
  CHECK(answers({0, 20}) == first + third);
}

TEST_CASE("short prompts pass a long one in every second batch") {
  for (const bool has_streams : {true, false}) {
    Clients c;
    const lh::Client& old = c.add(0, 1000);
    const lh::Client& other = c.add(1, 900);
    lh::Client& answer = c.add_answer(2);
    lh::BatchLimits limits = has_streams ? streams() : pool();
    limits.capacity += kSequences;  // room for answers
    limits.n_paddable = 0;          // so that prompts keep their ids
    lh::MixedBatch builder(c.positions, limits);
    // Returns the sequence ids of a batch with their numbers of tokens, as far as prompts
    // are concerned, and moves the positions.
    const auto step = [&] {
      CHECK(builder.build(c.pointers, 0));
      std::string out;
      bool has_answer = false;
      for (const lh::BatchPart& part : builder.parts()) {
        const int32_t seq_id = part.client->seq_id;
        has_answer = has_answer || part.client == &answer;
        if (part.client == &answer) continue;
        out += std::to_string(seq_id) + ":" + std::to_string(part.n_tokens) + " ";
        c.positions.set(seq_id, c.positions.get(seq_id) + part.n_tokens);
      }
      CHECK(has_answer);
      return out;
    };
    const std::string whole = "0:128 ";
    CHECK(step() == whole);
    CHECK(step() == whole);  // there is no short prompt
    c.add(3, 5);
    c.add(4, 6);
    if (has_streams) {
      CHECK(step() == "3:4 4:5 ");  // their last tokens come with the answers
      CHECK(step() == "0:128 3:1 4:1 ");
    } else {
      CHECK(step() == "0:117 3:5 4:6 ");
      CHECK(step() == whole);
    }
    c.clients[4].state = c.clients[3].state = LH_STATE_FINISHED;
    c.pointers.resize(3);
    const int32_t n_before = c.positions.get(0);
    CHECK(step() == whole);
    CHECK(c.positions.get(0) > n_before);
    CHECK(c.positions.get(1) == 0);  // a long prompt passes no other
    CHECK(old.n_prompt > other.n_prompt);
  }
}

TEST_CASE("a short prompt does not pass a long one of higher priority") {
  Clients c;
  c.add(0, 1000).priority = 1;
  c.add(1, 5);
  lh::MixedBatch builder(c.positions, streams());
  for (int i = 0; i < 3; ++i) {
    CHECK(builder.build(c.pointers, 0));
    REQUIRE(builder.parts().size() == 1);
    CHECK(builder.parts()[0].client->seq_id == 0);
    c.positions.set(0, c.positions.get(0) + builder.parts()[0].n_tokens);
  }
}

TEST_CASE("short prompts of an endless stream do not stop a long one") {
  for (const bool is_uniform : {false, true}) {
    Clients c;
    c.add(0, 1000);
    std::unique_ptr<lh::BatchBuilder> builder;
    if (is_uniform) {
      builder = std::make_unique<lh::UniformBatch>(c.positions, streams());
    } else {
      builder = std::make_unique<lh::MixedBatch>(c.positions, streams());
    }
    int32_t n_batches = 0;
    for (int32_t seq_id = 1; c.positions.get(0) < 900; ++n_batches) {
      REQUIRE(n_batches < 40);
      // After each batch, a new prompt replaces the one before.
      c.pointers.resize(1);
      c.positions.set(seq_id, 0);
      c.add(seq_id, 40);
      CHECK(builder->build(c.pointers, 0));
      for (const lh::BatchPart& part : builder->parts()) {
        const int32_t id = part.client->seq_id;
        c.positions.set(id, c.positions.get(id) + part.n_tokens);
      }
      seq_id = seq_id % 30 + 1;
    }
    CHECK(n_batches >= 8);
  }
}

TEST_CASE("in the deterministic mode answers alternate with the parts of a long prompt") {
  Clients c;
  c.add(0, 1000);
  lh::Client& answer = c.add_answer(1);
  lh::UniformBatch builder(c.positions, streams());
  std::string order;
  for (int i = 0; i < 6; ++i) {
    CHECK(builder.build(c.pointers, 0));
    const bool is_answer = builder.parts()[0].client == &answer;
    order += is_answer ? "a" : "p";
    if (!is_answer) {
      c.positions.set(0, c.positions.get(0) + builder.parts()[0].n_tokens);
    }
  }
  CHECK(order == "papapa");
}

TEST_CASE("short prompts of an endless stream do not stop answers") {
  Clients c;
  const lh::Client& answer = c.add_answer(0);
  lh::UniformBatch builder(c.positions, streams());
  std::string order;
  for (int32_t seq_id = 1; seq_id < 12; ++seq_id) {
    // After each batch of prompts, a new prompt replaces the one before.
    c.pointers.resize(1);
    c.add(seq_id, 40);
    CHECK(builder.build(c.pointers, 0));
    order += builder.parts()[0].client == &answer ? "a" : "p";
  }
  CHECK(order == "ppppappppap");
}

TEST_CASE("scores of an endless stream do not stop the path of a score") {
  for (const bool is_uniform : {false, true}) {
    Clients c;
    lh::Client& first = c.add(0, 5, 4);
    first.n_prompt = 4;
    first.task = std::make_unique<OnPath>();
    lh::BatchLimits limits = streams();
    limits.n_outputs = limits.capacity;
    std::unique_ptr<lh::BatchBuilder> builder;
    if (is_uniform) {
      builder = std::make_unique<lh::UniformBatch>(c.positions, limits);
    } else {
      builder = std::make_unique<lh::MixedBatch>(c.positions, limits);
    }
    bool is_there = false;
    int32_t n_batches = 0;
    for (; !is_there; ++n_batches) {
      REQUIRE(n_batches < 40);
      c.pointers.resize(1);
      c.add(1 + n_batches % 30, 40).task = std::make_unique<OnPath>();
      CHECK(builder->build(c.pointers, 0));
      is_there = builder->parts()[0].client == &first;
      CHECK(builder->parts().size() == 1);
    }
    CHECK(n_batches == 33);
  }
}

namespace {

constexpr int32_t kRoom = 512;
using Lengths = std::vector<int32_t>;

Lengths pad(const Lengths& lengths, bool amx, int32_t limit = 256, int32_t room = kRoom) {
  std::vector<lh::PartLength> parts;
  for (const int32_t n : lengths) parts.push_back({n, 0, limit});
  return lh::padded_lengths(parts, room, amx);
}

}  // namespace

TEST_CASE("parts are padded where that costs less than a computation more") {
  CHECK(pad({}, false).empty());
  CHECK(pad({1}, false) == Lengths{1});
  CHECK(pad({5, 5, 5}, false) == Lengths{5, 5, 5});
  // Each computation costs as much as eight additional rows.
  CHECK(pad({3, 10}, false) == Lengths{10, 10});
  CHECK(pad({3, 12}, false) == Lengths{3, 12});
  // Two short parts next to each other and two long parts.
  CHECK(pad({3, 4, 20, 23}, false) == Lengths{4, 4, 23, 23});
}

TEST_CASE("with AMX parts are padded to whole blocks of rows") {
  // 16 parts of 2 rows, then 8 parts of 8 more rows: 32 and 64 rows, the same as without
  // padding.
  Lengths lengths(8, 2);
  lengths.insert(lengths.end(), {7, 7, 7, 7, 10, 10, 10, 10});
  Lengths filled(8, 2);
  filled.insert(filled.end(), 8, 10);
  CHECK(pad(lengths, true) == filled);
  CHECK(pad(lengths, false) == lengths);
}

TEST_CASE("padding costs more the more cells it sees") {
  for (const bool amx : {false, true}) {
    CHECK(lh::padded_lengths({{1, 60, 256}, {1, 60, 256}, {3, 0, 256}}, kRoom, amx) ==
          Lengths{3, 3, 3});
    CHECK(lh::padded_lengths({{1, 900, 9999}, {1, 900, 9999}, {3, 0, 256}}, kRoom, amx) ==
          Lengths{1, 1, 3});
  }
}

TEST_CASE("nothing is padded beyond its limit, nor with more than there is room for") {
  for (const bool amx : {false, true}) {
    CHECK(pad({6, 7, 8}, amx, 7) == Lengths{7, 7, 8});
    CHECK(pad({6, 7, 7, 8}, amx, 256, 1) == Lengths{7, 7, 7, 8});
    CHECK(pad({6, 7, 8}, amx, 256, 0) == Lengths{6, 7, 8});
  }
}

TEST_CASE("a thought before an answer of any length has no overflow") {
  // A thought of 100 tokens.
  class Thinks final : public LastRow {
   public:
    int32_t n_before_answer(const lh::Client&) const override { return 100; }
  };
  lh::Client client;
  client.task = std::make_unique<Thinks>();
  client.max_tokens = INT32_MAX;
  CHECK(client.n_remaining() == int64_t{INT32_MAX} + 100);
}
