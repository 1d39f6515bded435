// Defines some of libllama's functions in the test program itself; the dynamic linker
// prefers these definitions. Samplers are libllama's own.
#include "fake_llama.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>

#include "allocations.hpp"
#include "llama.h"
#include "text.hpp"

namespace fake {
namespace {

struct Cell {
  int32_t position;
  int32_t token;
  std::set<int32_t> sequences;
};

struct Model {
  int unused = 0;
};

// Without kv_unified: a stream for each sequence to which cells were written. `cells`
// determine which of its cells are valid.
using Stream = std::vector<int32_t>;

struct Context {
  llama_context_params params{};
  std::vector<Cell> cells;
  std::map<int32_t, Stream> streams;
  std::vector<std::pair<int32_t, int32_t>> copies;  // copies of streams, made at the next
                                                    // decode
  std::map<int32_t, std::vector<float>> logits;     // by index in the batch
  int64_t n_decodes = 0;
  std::vector<std::pair<llama_adapter_lora*, float>> loras;
  std::map<int32_t, int32_t> n_lost;  // number of cells at the beginning of a sequence
};

Model the_model;
std::set<llama_adapter_lora*> living_loras;
Context* the_context = nullptr;  // the latest context

Context& of(const llama_context* ctx) {
  return *const_cast<Context*>(reinterpret_cast<const Context*>(ctx));
}
Context& of(llama_memory_t memory) { return *reinterpret_cast<Context*>(memory); }

void violation(bool is_one) { counts().n_violations += is_one ? 1 : 0; }

int32_t n_ctx_seq(const Context& ctx) {
  const auto n = static_cast<int32_t>(ctx.params.n_ctx);
  return ctx.params.kv_unified ? n : n / static_cast<int32_t>(ctx.params.n_seq_max);
}

int32_t n_streams(const Context& ctx) {
  return ctx.params.kv_unified ? 1 : static_cast<int32_t>(ctx.params.n_seq_max);
}

std::vector<int32_t> tokens_of(const Context& ctx, int32_t seq_id) {
  std::map<int32_t, int32_t> by_position;
  for (const Cell& cell : ctx.cells) {
    if (cell.sequences.count(seq_id)) by_position[cell.position] = cell.token;
  }
  std::vector<int32_t> tokens;
  for (const auto& [position, token] : by_position) {
    violation(position != static_cast<int32_t>(tokens.size()));
    tokens.push_back(token);
  }
  return tokens;
}

void write(Context& ctx, int32_t seq_id, int32_t position, int32_t token) {
  Stream& stream = ctx.streams[seq_id];
  const auto i = static_cast<size_t>(position);
  if (stream.size() <= i) stream.resize(i + 1, -1);
  stream[i] = token;
}

// Returns the first n tokens to which attention has access.
std::vector<int32_t> seen(Context& ctx, int32_t seq_id, size_t n) {
  std::vector<int32_t> tokens = tokens_of(ctx, seq_id);
  if (!ctx.params.kv_unified) tokens = ctx.streams[seq_id];
  violation(tokens.size() < n);
  tokens.resize(n);
  return tokens;
}

void copy_streams(Context& ctx) {
  for (const auto& [from, to] : ctx.copies) ctx.streams[to] = ctx.streams[from];
  ctx.copies.clear();
}

uint64_t hash_of(const std::vector<int32_t>& tokens) {
  uint64_t h = 0x9E3779B97F4A7C15ULL;
  for (const int32_t token : tokens) {
    h = (h ^ static_cast<uint64_t>(token)) * 0x100000001B3ULL;
    h ^= h >> 29U;
  }
  return h;
}

std::vector<float> logits_for(const std::vector<int32_t>& tokens) {
  std::vector<float> row(kVocab);
  const uint64_t h = hash_of(tokens);
  for (int32_t i = 0; i < kVocab; ++i) {
    const uint64_t x = (h + static_cast<uint64_t>(i)) * 0xBF58476D1CE4E5B9ULL;
    row[static_cast<size_t>(i)] = static_cast<float>((x >> 40U) & 0xFFFFU) / 65536.0F;
  }
  if (static_cast<double>(h / 1000 % 1000) < settings().repeat_share * 1000 &&
      tokens.size() > static_cast<size_t>(kPeriod)) {
    row[static_cast<size_t>(*(tokens.end() - kPeriod))] = 1.5F;
  }
  if (static_cast<double>(h / 7 % 1000) < settings().control_share * 1000) {
    row[kControl] = 1.8F;
  }
  const bool ends = static_cast<double>(h % 1000) < settings().eos_share * 1000;
  row[kEos] = ends ? 2.0F : -1.0F;
  return row;
}

size_t n_free_cells(const Context& ctx, int32_t seq_id) {
  if (ctx.params.kv_unified) return ctx.params.n_ctx - ctx.cells.size();
  const auto used = std::count_if(ctx.cells.begin(), ctx.cells.end(), [&](const Cell& c) {
    return c.sequences.count(seq_id) > 0;
  });
  return static_cast<size_t>(n_ctx_seq(ctx) - used);
}

// Does libllama's checks of a batch: positions are consecutive, tokens are in the
// vocabulary.
bool is_valid(const Context& ctx, const llama_batch& batch) {
  std::map<int32_t, int32_t> next;
  for (int32_t i = 0; i < batch.n_tokens; ++i) {
    const int32_t seq_id = batch.seq_id[i][0];
    violation(seq_id < 0 || seq_id >= static_cast<int32_t>(ctx.params.n_seq_max));
    if (batch.token[i] < 0 || batch.token[i] >= kVocab) return false;
    const auto [at, is_new] = next.emplace(seq_id, 0);
    if (is_new) at->second = static_cast<int32_t>(tokens_of(ctx, seq_id).size());
    if (batch.pos[i] != at->second++) return false;
  }
  return true;
}

bool has_room(const Context& ctx, const llama_batch& batch) {
  std::map<int32_t, size_t> needed;  // by stream; one stream if unified
  for (int32_t i = 0; i < batch.n_tokens; ++i) {
    ++needed[ctx.params.kv_unified ? 0 : batch.seq_id[i][0]];
  }
  return std::all_of(needed.begin(), needed.end(), [&](const auto& item) {
    return item.second <= n_free_cells(ctx, item.first);
  });
}

// Waits like a slow computation that calls the abort callback repeatedly.
bool compute(const Context& ctx) {
  ++counts().n_begun;
  for (int32_t ms = 0; ms < settings().decode_ms; ++ms) {
    if (ctx.params.abort_callback(ctx.params.abort_callback_data)) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

Fault next_fault(Context& ctx, const llama_batch& batch) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < batch.n_tokens; ++i) ids.push_back(batch.seq_id[i][0]);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  ++ctx.n_decodes;
  return settings().fault ? settings().fault(ctx.n_decodes, ids) : Fault::kNone;
}

void add_cells(Context& ctx, const llama_batch& batch, int32_t n) {
  for (int32_t i = 0; i < n; ++i) {
    const int32_t seq_id = batch.seq_id[i][0];
    ctx.cells.push_back({batch.pos[i], batch.token[i], {seq_id}});
    write(ctx, seq_id, batch.pos[i], batch.token[i]);
  }
}

// A computation begins at a position and needs all cells of the window of this position.
void move_window(Context& ctx, int32_t seq_id, int32_t position) {
  const int32_t n_before = std::max(0, position - settings().n_swa + 1);
  int32_t& n_lost = ctx.n_lost[seq_id];
  violation(n_lost > n_before);
  n_lost = std::max(n_lost, n_before);
}

// Splits a batch like llama_batch_allocr::split_equal: the first sequence with remaining
// tokens and the sequences with the following ids, each with the number of tokens that
// all of them have.
void count_computations(Context& ctx, const llama_batch& batch) {
  std::map<int32_t, int32_t> next;  // position
  for (int32_t i = 0; i < batch.n_tokens; ++i) {
    next.emplace(batch.seq_id[i][0], batch.pos[i]);
  }
  std::vector<std::pair<int32_t, int32_t>> left;  // sequence and tokens, in order
  for (int32_t i = 0; i < batch.n_tokens; ++i) {
    const int32_t seq_id = batch.seq_id[i][0];
    if (left.empty() || left.back().first != seq_id) left.emplace_back(seq_id, 0);
    ++left.back().second;
  }
  while (!left.empty()) {
    std::vector<size_t> together = {0};
    for (size_t i = 1; i < left.size(); ++i) {
      if (left[i].first == left[together.back()].first + 1) together.push_back(i);
    }
    int32_t n_tokens = INT32_MAX;
    for (const size_t i : together) n_tokens = std::min(n_tokens, left[i].second);
    const auto n_rows = n_tokens * static_cast<int32_t>(together.size());
    violation(n_rows % settings().uniform_rows != 0);
    ++counts().n_computations;
    for (const size_t i : together) {
      left[i].second -= n_tokens;
      if (settings().strict_window) move_window(ctx, left[i].first, next[left[i].first]);
      next[left[i].first] += n_tokens;
    }
    left.erase(std::remove_if(left.begin(), left.end(),
                              [](const auto& item) { return item.second == 0; }),
               left.end());
  }
}

int32_t decode(Context& ctx, const llama_batch& batch) {
  count_computations(ctx, batch);
  violation(batch.n_tokens > static_cast<int32_t>(ctx.params.n_batch));
  ctx.logits.clear();
  if (batch.n_tokens <= 0 || !is_valid(ctx, batch)) return -1;
  copy_streams(ctx);
  const Fault fault = next_fault(ctx, batch);
  if (fault == Fault::kNoSlot || !has_room(ctx, batch)) return 1;
  if (fault == Fault::kInvalid) return -1;
  if (fault == Fault::kThrow) throw std::runtime_error("the fake was told to throw");
  // Like libllama after a failed computation: a part of the batch remains in the cache.
  if (fault == Fault::kFatal || fault == Fault::kAbort || !compute(ctx)) {
    add_cells(ctx, batch, batch.n_tokens / 2);
    return fault == Fault::kFatal ? -3 : 2;
  }
  add_cells(ctx, batch, batch.n_tokens);
  ++counts().n_decodes;
  counts().n_tokens += batch.n_tokens;
  int32_t n_outputs = 0;
  for (int32_t i = 0; i < batch.n_tokens; ++i) {
    if (!batch.logits[i]) continue;
    ++n_outputs;
    if (fault == Fault::kNull) continue;
    const auto n_seen = static_cast<size_t>(batch.pos[i]) + 1;
    auto& row = ctx.logits[i] = logits_for(seen(ctx, batch.seq_id[i][0], n_seen));
    if (fault == Fault::kNan) std::fill(row.begin(), row.end(), std::nanf(""));
  }
  violation(n_outputs > static_cast<int32_t>(ctx.params.n_outputs_max));
  return 0;
}

const char* text_of(int32_t token) {
  static const std::vector<std::string> bytes = [] {
    std::vector<std::string> all;
    for (int i = 0; i < 256; ++i) all.emplace_back(1, static_cast<char>(i));
    return all;
  }();
  if (token == kBos) return "<s>";
  if (token == kEos) return "</s>";
  if (token == kControl) return "<|x|>";
  if (token == kControl + 1) return "word";
  return bytes[static_cast<size_t>(token)].c_str();
}

bool is_control(int32_t token) { return token >= kBos && token <= kControl; }

}  // namespace

Settings& settings() {
  static Settings the;
  return the;
}
Counts& counts() {
  static Counts the;
  return the;
}
ggml_log_callback& log_at_start() {
  static ggml_log_callback the = nullptr;
  return the;
}
std::string& backends_folder() {
  static std::string the;
  return the;
}
void reset() {
  settings() = {};
  backends_folder().clear();
  counts().n_begun = 0;
  counts().n_decodes = 0;
  counts().n_tokens = 0;
  counts().n_computations = 0;
  counts().n_states = 0;
  counts().n_violations = 0;
}

int32_t n_cells_left() {
  return the_context == nullptr ? 0 : static_cast<int32_t>(the_context->cells.size());
}

const llama_context_params& last_params() { return the_context->params; }
const std::vector<std::pair<llama_adapter_lora*, float>>& loras() {
  return the_context->loras;
}
int32_t n_loras() { return static_cast<int32_t>(living_loras.size()); }

std::vector<double> logprobs(const std::vector<int32_t>& tokens) {
  const std::vector<float> row = logits_for(tokens);
  double sum = 0;
  for (const float logit : row) sum += std::exp(static_cast<double>(logit));
  std::vector<double> out;
  for (const float logit : row) out.push_back(static_cast<double>(logit) - std::log(sum));
  return out;
}

int32_t next(const std::vector<int32_t>& tokens) {
  const std::vector<float> row = logits_for(tokens);
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

std::string answer(std::vector<int32_t> tokens, int32_t max_tokens) {
  lh::TextBuffer text;
  for (int32_t i = 0; i < max_tokens; ++i) {
    const std::vector<float> row = logits_for(tokens);
    const auto best = std::max_element(row.begin(), row.end()) - row.begin();
    if (best == kEos) break;
    tokens.push_back(static_cast<int32_t>(best));
    if (!is_control(tokens.back())) {
      const char* piece = text_of(tokens.back());
      text.append({piece, tokens.back() < 256 ? 1 : std::strlen(piece)});
    }
  }
  text.finish();
  return text.text();
}

}  // namespace fake

using fake::Context;
using fake::of;

// Replaced, because libllama's function would run AVX-512 instructions, which valgrind
// does not support.
void llama_backend_init(void) {
  void* data = nullptr;
  llama_log_get(&fake::log_at_start(), &data);
}
void llama_backend_free(void) {}

// ---- model and vocabulary -------------------------------------------------------------

// Replaced, because ggml's own list would also run these instructions.
size_t ggml_backend_reg_count() { return fake::settings().n_backends; }
void ggml_backend_load_all_from_path(const char* folder) {
  fake::backends_folder() = folder;
  fake::settings().n_backends = 1;
}

// Lists no processor to test for AMX, and no GPU by default, because valgrind does not
// support their instructions.
bool llama_supports_gpu_offload() { return fake::settings().has_gpu; }
ggml_backend_dev_t ggml_backend_dev_by_type(enum ggml_backend_dev_type) {
  return nullptr;
}

llama_model* llama_model_load_from_file(const char* path, llama_model_params) {
  if (std::strcmp(path, fake::kModelPath) != 0) return nullptr;
  return reinterpret_cast<llama_model*>(&fake::the_model);
}
void llama_model_free(llama_model*) {}
const llama_vocab* llama_model_get_vocab(const llama_model* model) {
  return reinterpret_cast<const llama_vocab*>(model);
}
bool llama_model_has_encoder(const llama_model*) { return fake::settings().encoder; }
bool llama_model_has_decoder(const llama_model*) { return true; }
bool llama_model_is_recurrent(const llama_model*) { return fake::settings().recurrent; }
bool llama_model_is_hybrid(const llama_model*) { return false; }
int32_t llama_model_n_swa(const llama_model*) { return fake::settings().n_swa; }
int32_t llama_model_n_ctx_train(const llama_model*) { return 4096; }
int32_t llama_model_meta_val_str(const llama_model*, const char* key, char* text,
                                 size_t size) {
  const int32_t n = fake::settings().n_ctx_orig;
  if (std::strcmp(key, "general.architecture") == 0) {
    return std::snprintf(text, size, "toy");
  }
  if (n == 0 || std::strcmp(key, "toy.rope.scaling.original_context_length") != 0) {
    return -1;
  }
  return std::snprintf(text, size, "%d", n);
}
int32_t llama_model_n_embd(const llama_model*) { return 4; }
int32_t llama_model_n_embd_out(const llama_model*) { return 4; }
enum llama_vocab_type llama_vocab_type(const llama_vocab*) {
  return LLAMA_VOCAB_TYPE_BPE;
}
int32_t llama_vocab_n_tokens(const llama_vocab*) { return fake::kVocab; }
bool llama_vocab_is_eog(const llama_vocab*, llama_token t) { return t == fake::kEos; }
bool llama_vocab_is_control(const llama_vocab*, llama_token t) {
  return fake::is_control(t);
}
enum llama_token_attr llama_vocab_get_attr(const llama_vocab*, llama_token t) {
  return fake::is_control(t) ? LLAMA_TOKEN_ATTR_CONTROL : LLAMA_TOKEN_ATTR_NORMAL;
}
const char* llama_vocab_get_text(const llama_vocab*, llama_token t) {
  return fake::text_of(t);
}
const llama_token* llama_vocab_get_suppress_tokens(const llama_vocab*, int32_t* n) {
  *n = 0;
  return nullptr;
}
llama_token llama_vocab_bos(const llama_vocab*) { return fake::kBos; }
llama_token llama_vocab_eos(const llama_vocab*) { return fake::kEos; }
bool llama_vocab_get_add_bos(const llama_vocab*) { return true; }
bool llama_vocab_get_add_eos(const llama_vocab*) { return false; }

namespace {

// Recurses for each character of a word, as std::regex of libstdc++ does.
size_t match_word(const char* text, const char* end, bool is_spaces) {
  const bool is_space = text != end && (*text == ' ' || *text == '\n');
  if (text == end || (is_spaces && !is_space)) return 0;
  auto* frame =
      static_cast<volatile char*>(__builtin_alloca(fake::settings().word_stack));
  frame[0] = *text;
  return match_word(text + 1, end, is_space) + (frame[0] == *text ? 1 : 0);
}

}  // namespace

int32_t llama_tokenize(const llama_vocab*, const char* text, int32_t n_text,
                       llama_token* tokens, int32_t n_max, bool add_special,
                       bool parse_special) {
  const allocations::Exempt exempt;
  std::vector<int32_t> out;
  for (const char* at = text; fake::settings().word_stack > 0 && at < text + n_text;) {
    at += match_word(at, text + n_text, false);
  }
  if (add_special) out.push_back(fake::kBos);
  for (int32_t i = 0; i < n_text;) {
    int32_t special = -1;
    for (int32_t t = fake::kBos; parse_special && t <= fake::kControl; ++t) {
      const auto size = static_cast<int32_t>(std::strlen(fake::text_of(t)));
      if (size <= n_text - i && std::memcmp(text + i, fake::text_of(t), size) == 0) {
        special = t;
        i += size;
        break;
      }
    }
    out.push_back(special >= 0 ? special : static_cast<uint8_t>(text[i++]));
  }
  if (static_cast<int32_t>(out.size()) > n_max) return -static_cast<int32_t>(out.size());
  std::copy(out.begin(), out.end(), tokens);
  return static_cast<int32_t>(out.size());
}

int32_t llama_token_to_piece(const llama_vocab*, llama_token t, char* buffer,
                             int32_t length, int32_t, bool special) {
  const allocations::Exempt exempt;
  if (fake::is_control(t) && !special) return 0;
  const int32_t n = t < 256 ? 1 : static_cast<int32_t>(std::strlen(fake::text_of(t)));
  if (n > length) return -n;
  std::memcpy(buffer, fake::text_of(t), static_cast<size_t>(n));
  return n;
}

// ---- context --------------------------------------------------------------------------

llama_context* llama_init_from_model(llama_model*, llama_context_params params) {
  const allocations::Exempt exempt;
  if (fake::settings().n_bad_contexts > 0) {
    --fake::settings().n_bad_contexts;
    return nullptr;
  }
  auto ctx = std::make_unique<Context>();
  ctx->params = params;
  fake::the_context = ctx.release();
  return reinterpret_cast<llama_context*>(fake::the_context);
}
void llama_free(llama_context* ctx) {
  if (fake::the_context == &of(ctx)) fake::the_context = nullptr;
  std::unique_ptr<Context>{&of(ctx)};
}
llama_adapter_lora* llama_adapter_lora_init(llama_model*, const char* path) {
  if (std::strstr(path, "unloadable") != nullptr) return nullptr;
  auto* lora = reinterpret_cast<llama_adapter_lora*>(std::make_unique<char>().release());
  fake::living_loras.insert(lora);
  return lora;
}
void llama_adapter_lora_free(llama_adapter_lora* lora) {
  fake::violation(fake::living_loras.erase(lora) == 0);
  std::unique_ptr<char>{reinterpret_cast<char*>(lora)};
}
int32_t llama_set_adapters_lora(llama_context* ctx, llama_adapter_lora** loras, size_t n,
                                float* scales) {
  for (size_t i = 0; i < n; ++i) of(ctx).loras.emplace_back(loras[i], scales[i]);
  return 0;
}
uint32_t llama_n_ctx(const llama_context* ctx) { return of(ctx).params.n_ctx; }
uint32_t llama_n_ctx_seq(const llama_context* ctx) {
  return static_cast<uint32_t>(fake::n_ctx_seq(of(ctx)));
}
uint32_t llama_n_batch(const llama_context* ctx) {
  return std::min(of(ctx).params.n_ctx, of(ctx).params.n_batch);
}
uint32_t llama_n_ubatch(const llama_context* ctx) { return of(ctx).params.n_ubatch; }
int32_t llama_n_threads_batch(llama_context* ctx) {
  return of(ctx).params.n_threads_batch;
}
llama_memory_t llama_get_memory(const llama_context* ctx) {
  return fake::settings().memory ? reinterpret_cast<llama_memory_t>(&of(ctx)) : nullptr;
}
int32_t llama_decode(llama_context* ctx, llama_batch batch) {
  const allocations::Exempt exempt;
  return fake::decode(of(ctx), batch);
}
float* llama_get_logits_ith(llama_context* ctx, int32_t i) {
  const auto row = of(ctx).logits.find(i);
  return row == of(ctx).logits.end() ? nullptr : row->second.data();
}

// ---- memory ---------------------------------------------------------------------------

bool llama_memory_seq_rm(llama_memory_t memory, llama_seq_id seq_id, llama_pos from,
                         llama_pos to) {
  const allocations::Exempt exempt;
  Context& ctx = of(memory);
  if (from < 0) from = 0;
  if (to < 0) to = INT32_MAX;
  if (fake::settings().fail_cut && from > 0) return false;
  if (from == 0) ctx.n_lost.erase(seq_id);
  const auto size = static_cast<int32_t>(fake::tokens_of(ctx, seq_id).size());
  if (fake::settings().recurrent && from > 0 && from < size) return false;
  for (fake::Cell& cell : ctx.cells) {
    if (cell.position >= from && cell.position < to) cell.sequences.erase(seq_id);
  }
  ctx.cells.erase(std::remove_if(ctx.cells.begin(), ctx.cells.end(),
                                 [](const fake::Cell& c) { return c.sequences.empty(); }),
                  ctx.cells.end());
  return true;
}

void llama_memory_seq_cp(llama_memory_t memory, llama_seq_id from, llama_seq_id to,
                         llama_pos p0, llama_pos p1) {
  const allocations::Exempt exempt;
  Context& ctx = of(memory);
  if (fake::settings().fail_copy) throw std::bad_alloc();
  fake::violation(p0 > 0 || p1 > 0);
  fake::violation(!fake::tokens_of(ctx, to).empty());
  std::vector<fake::Cell> copies;
  for (fake::Cell& cell : ctx.cells) {
    if (!cell.sequences.count(from)) continue;
    if (ctx.params.kv_unified) {
      cell.sequences.insert(to);
    } else {
      copies.push_back({cell.position, cell.token, {to}});
    }
  }
  ctx.cells.insert(ctx.cells.end(), copies.begin(), copies.end());
  if (!ctx.params.kv_unified) ctx.copies.emplace_back(from, to);
}

void llama_memory_clear(llama_memory_t memory, bool) { of(memory).cells.clear(); }

llama_pos llama_memory_seq_pos_min(llama_memory_t memory, llama_seq_id seq_id) {
  const allocations::Exempt exempt;
  Context& ctx = of(memory);
  const auto n_cells = static_cast<llama_pos>(fake::tokens_of(ctx, seq_id).size());
  const llama_pos first = fake::settings().strict_window ? ctx.n_lost[seq_id] : 0;
  return first < n_cells ? first : -1;
}

llama_pos llama_memory_seq_pos_max(llama_memory_t memory, llama_seq_id seq_id) {
  const allocations::Exempt exempt;
  return static_cast<llama_pos>(fake::tokens_of(of(memory), seq_id).size()) - 1;
}

// A state has libllama's contents: the number of streams, then the contents of the cells.
// It cannot be restored in a cache with another number of streams.
size_t llama_state_seq_get_size(llama_context* ctx, llama_seq_id seq_id) {
  const allocations::Exempt exempt;
  return (fake::tokens_of(of(ctx), seq_id).size() + 1) * sizeof(int32_t);
}
size_t llama_state_seq_get_data(llama_context* ctx, uint8_t* data, size_t size,
                                llama_seq_id seq_id) {
  const allocations::Exempt exempt;
  ++fake::counts().n_states;
  const size_t n = fake::tokens_of(of(ctx), seq_id).size();
  std::vector<int32_t> state = fake::seen(of(ctx), seq_id, n);
  state.insert(state.begin(), fake::n_streams(of(ctx)));
  const size_t n_bytes = state.size() * sizeof(int32_t);
  if (fake::settings().fail_state || size < n_bytes) return 0;
  std::memcpy(data, state.data(), n_bytes);
  return n_bytes;
}
size_t llama_state_seq_set_data(llama_context* ctx, const uint8_t* data, size_t size,
                                llama_seq_id seq_id) {
  const allocations::Exempt exempt;
  if (size < sizeof(int32_t)) return 0;
  std::vector<int32_t> state(size / sizeof(int32_t));
  std::memcpy(state.data(), data, state.size() * sizeof(int32_t));
  if (state[0] != fake::n_streams(of(ctx))) return 0;
  const size_t n = state.size() - 1;
  if (n > fake::n_free_cells(of(ctx), seq_id)) return 0;
  for (size_t i = 0; i < n; ++i) {
    const auto position = static_cast<int32_t>(i);
    of(ctx).cells.push_back({position, state[i + 1], {seq_id}});
    fake::write(of(ctx), seq_id, position, state[i + 1]);
  }
  return size;
}
