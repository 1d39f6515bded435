#include "llguidance.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <locale>
#include <mutex>
#include <sstream>
#include <string_view>
#include <utility>

#include "guard.hpp"
#include "large_stack.hpp"
#include "utf8.hpp"

namespace lh {
namespace {

// ---- used part of llguidance's C API (parser/llguidance.h) -----------------------

struct LlgTokenizer;
struct LlgMatcher;

// LlgTokenizerInitV2; the library reads struct_size bytes. Without struct_size and the
// last two fields, it is LlgTokenizerInit. Versions before 1.7 have only this one, and
// therefore a single end token.
struct LlgTokenizerInit {
  size_t struct_size;
  uint32_t vocab_size;
  uint32_t tok_eos;
  const uint32_t* token_lens;
  const uint8_t* token_bytes;
  const char* tokenizer_json;
  bool tokenize_assumes_string;
  size_t (*tokenize)(const void* user_data, const uint8_t* bytes, size_t n_bytes,
                     uint32_t* tokens, size_t capacity);
  bool use_approximate_greedy_tokenize;
  const void* tokenize_user_data;
  const char* const* slices;
  const uint32_t* tok_eos_extra;
  uint32_t n_tok_eos_extra;
};

struct LlgConstraintInit {  // without a size field; padded for fields of later versions
  const LlgTokenizer* tokenizer;
  uint32_t log_buffer_level;
  uint32_t log_stderr_level;
  uint8_t rest[496];
};

struct Functions {
  const char* (*get_version)();                                // null before 1.7.2
  LlgTokenizer* (*new_tokenizer)(const void*, char*, size_t);  // null from 1.7 on
  LlgTokenizer* (*new_tokenizer_v2)(const LlgTokenizerInit*, char*, size_t);
  void (*free_tokenizer)(LlgTokenizer*);
  void (*constraint_init_set_defaults)(LlgConstraintInit*, const LlgTokenizer*);
  LlgMatcher* (*new_matcher)(const LlgConstraintInit*, const char*, const char*);
  LlgMatcher* (*clone_matcher)(const LlgMatcher*);
  void (*free_matcher)(LlgMatcher*);
  const char* (*matcher_get_error)(LlgMatcher*);
  int32_t (*matcher_compute_mask_into)(LlgMatcher*, uint32_t*, size_t);
  int32_t (*matcher_consume_tokens)(LlgMatcher*, const uint32_t*, size_t);
  int32_t (*matcher_compute_ff_tokens)(LlgMatcher*, uint32_t*, size_t);
  bool (*matcher_is_accepting)(LlgMatcher*);
  bool (*matcher_is_stopped)(const LlgMatcher*);
  size_t (*tokenize_bytes)(const LlgTokenizer*, const uint8_t*, size_t, uint32_t*,
                           size_t);
};

Functions functions;
std::atomic<bool> has_functions{false};

template <class Function>
void take(const char* name, const void* address, Function*& function) {
  require(address != nullptr, std::string("the address of llg_") + name + " is missing");
  function = reinterpret_cast<Function*>(const_cast<void*>(address));
}

// ---- vocabulary ------------------------------------------------------------------

constexpr uint32_t kNoToken = UINT32_MAX;

struct TokenizerDeleter {
  void operator()(LlgTokenizer* tokenizer) const { functions.free_tokenizer(tokenizer); }
};

// Vocabulary of a model in llguidance's form. Creating the vocabulary takes a second or
// two for 262,144 tokens.
struct Vocabulary {
  explicit Vocabulary(const lh_model& model);

  std::vector<uint32_t> tokenize(std::string_view text) const;

  // Returns the tokens of a text; for a very long text, only the first tokens.
  std::vector<int32_t> cut_start(std::string_view text) const;

  const lh_model& model;
  // End tokens that llguidance does not know: allowed if the first end token is.
  std::vector<int32_t> further_ends;
  std::unique_ptr<LlgTokenizer, TokenizerDeleter> native;
};

size_t on_tokenize(const void* user_data, const uint8_t* bytes, size_t n_bytes,
                   uint32_t* tokens, size_t capacity) noexcept {
  try {
    const auto* text = reinterpret_cast<const char*>(bytes);
    const auto& tokenizer = *static_cast<const Vocabulary*>(user_data);
    const std::vector<int32_t> cuts = tokenizer.cut_start({text, n_bytes});
    const size_t n = std::min(capacity, cuts.size());
    std::transform(cuts.begin(), cuts.begin() + static_cast<std::ptrdiff_t>(n), tokens,
                   [](int32_t token) { return static_cast<uint32_t>(token); });
    return cuts.size();
  } catch (...) {
    return 0;
  }
}

Vocabulary::Vocabulary(const lh_model& m) : model(m) {
  std::vector<uint32_t> sizes(static_cast<size_t>(m.n_vocab()));
  std::string bytes;
  for (int32_t token = 0; token < m.n_vocab(); ++token) {
    // Special tokens begin with a byte that is invalid in UTF-8. Tokens without text are
    // never allowed.
    const std::string piece = m.is_eog(token) ? "\xFF<end>" : m.piece(token);
    sizes[static_cast<size_t>(token)] = static_cast<uint32_t>(piece.size());
    bytes += piece;
  }
  std::vector<uint32_t> ends(m.eog_tokens().begin(), m.eog_tokens().end());
  LlgTokenizerInit init{};
  init.struct_size = sizeof(init);
  init.vocab_size = static_cast<uint32_t>(m.n_vocab());
  init.tok_eos = ends.empty() ? kNoToken : ends[0];
  init.token_lens = sizes.data();
  init.token_bytes = reinterpret_cast<const uint8_t*>(bytes.data());
  init.tokenize_assumes_string = true;
  init.tokenize = on_tokenize;
  init.tokenize_user_data = this;
  char why[512] = "";
  if (functions.new_tokenizer_v2 == nullptr) {
    native.reset(functions.new_tokenizer(&init.vocab_size, why, sizeof(why)));
    if (!ends.empty()) further_ends.assign(ends.begin() + 1, ends.end());
  } else {
    if (ends.size() > 1) {
      init.tok_eos_extra = ends.data() + 1;
      init.n_tok_eos_extra = static_cast<uint32_t>(ends.size() - 1);
    }
    native.reset(functions.new_tokenizer_v2(&init, why, sizeof(why)));
  }
  if (!native) {
    throw Error(LH_SAMPLER_ERROR,
                std::string("llguidance cannot use this model's vocabulary: ") + why);
  }
}

// llguidance tokenizes the whole forced text again after each 64 tokens, and some of
// libllama's tokenizers need quadratic time in the length of a text. Therefore only a
// prefix is tokenized. Its tokens equal the tokens of the whole text except near the
// prefix's end, where they are dropped.
std::vector<int32_t> Vocabulary::cut_start(std::string_view text) const {
  constexpr size_t kLong = 4096;  // in bytes; the first 64 tokens have far fewer
  constexpr size_t kDropped = 4;  // the last 1/kDropped of the tokens are dropped
  if (text.size() <= kLong) return model.tokenize_inside(text);
  size_t n_bytes = kLong;
  while (n_bytes > 0 && continues_character(text[n_bytes])) --n_bytes;
  std::vector<int32_t> tokens = model.tokenize_inside(text.substr(0, n_bytes));
  tokens.resize(tokens.size() - tokens.size() / kDropped);
  return tokens;
}

std::vector<uint32_t> Vocabulary::tokenize(std::string_view text) const {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  std::vector<uint32_t> tokens(text.size() + 4);
  const size_t n = functions.tokenize_bytes(native.get(), bytes, text.size(),
                                            tokens.data(), tokens.size());
  tokens.resize(std::min(n, tokens.size()));
  return tokens;
}

const Vocabulary& vocabulary_of(const lh_model& model) {
  const auto make = [&] { return std::make_shared<const Vocabulary>(model); };
  return *static_cast<const Vocabulary*>(model.kept(lh_model::Kept::kVocabulary, make));
}

// ---- constraint ------------------------------------------------------------------

// llguidance compiles references by recursion. A level needs up to 10 KiB of stack and at
// least 28 bytes of a schema ("a":{"items":{"$ref":"#/a"}}), or 3 KiB and 4 bytes of a
// grammar (a rule that names the next one). Longer texts get a stack of their own.
constexpr size_t kStackPerByte = 1024;
constexpr size_t kShortText = 512;
constexpr size_t kMostText = 2'000'000;

// State shared by a constraint and all its copies. In llguidance, copies share the
// lexer's states: if one copy exceeds the limit of states, all other copies fail.
struct Shared {
  std::mutex copying;
  std::atomic<bool> has_failed{false};
};

struct MatcherDeleter {
  void operator()(LlgMatcher* matcher) const { functions.free_matcher(matcher); }
};
using Matcher = std::unique_ptr<LlgMatcher, MatcherDeleter>;

class LlgConstraint final : public Constraint {
 public:
  LlgConstraint(const Vocabulary& tokenizer, Matcher matcher,
                std::shared_ptr<Shared> shared)
      : tokenizer_(&tokenizer), matcher_(std::move(matcher)), shared_(std::move(shared)) {
    check();
  }

  std::unique_ptr<Constraint> copy() const override {
    const std::scoped_lock lock(shared_->copying);
    Matcher matcher(functions.clone_matcher(matcher_.get()));
    return std::make_unique<LlgConstraint>(*tokenizer_, std::move(matcher), shared_);
  }

  bool is_spent() const override { return shared_->has_failed.load(); }

  void prepare() noexcept override {
    try {
      make_mask();
    } catch (...) {
      mask_.clear();  // the next query raises the error
    }
  }

  bool allows(int32_t token) override {
    make_mask();
    return is_set(token);
  }

  std::vector<int32_t> allowed_tokens() override {
    make_mask();
    std::vector<int32_t> tokens;
    const auto n_vocab = static_cast<size_t>(tokenizer_->model.n_vocab());
    for (size_t i = 0; i < mask_.size(); ++i) {
      for (uint32_t bits = mask_[i]; bits != 0; bits &= bits - 1) {
        size_t bit = 0;
        while (((bits >> bit) & 1U) == 0) ++bit;
        const size_t token = i * kBits + bit;
        if (token < n_vocab) tokens.push_back(static_cast<int32_t>(token));
      }
    }
    return tokens;
  }

  std::vector<int32_t> forced_tokens() override {
    if (functions.matcher_is_stopped(matcher_.get())) {
      check();
      return {};
    }
    uint32_t tokens[kMostForced];
    const int32_t n =
        functions.matcher_compute_ff_tokens(matcher_.get(), tokens, kMostForced);
    if (n < 0) fail();
    std::vector<int32_t> forced;
    for (int32_t i = 0; i < n; ++i) {
      const auto token = static_cast<int32_t>(tokens[i]);
      if (tokenizer_->model.is_eog(token)) break;
      forced.push_back(token);
    }
    return forced;
  }

  void accept(int32_t token) override {
    if (tokenizer_->model.is_eog(token)) return;
    const auto number = static_cast<uint32_t>(token);
    mask_.clear();
    if (functions.matcher_consume_tokens(matcher_.get(), &number, 1) != 0) fail();
  }

  bool is_complete() override { return functions.matcher_is_accepting(matcher_.get()); }

  bool is_at_end() override {
    return functions.matcher_is_stopped(matcher_.get()) &&
           functions.matcher_get_error(matcher_.get()) == nullptr;
  }

  bool completes(std::string_view text) override {
    return accepts_text(*this, tokenizer_->model, text);
  }

 private:
  static constexpr size_t kBits = 32;        // tokens per element of the mask
  static constexpr size_t kMostForced = 64;  // the rest is returned by the next call

  void make_mask() {
    if (!mask_.empty()) return;
    const auto n_vocab = static_cast<size_t>(tokenizer_->model.n_vocab());
    mask_.resize((n_vocab + kBits - 1) / kBits);
    const int32_t status = functions.matcher_compute_mask_into(
        matcher_.get(), mask_.data(), mask_.size() * sizeof(uint32_t));
    if (status != 0) {
      mask_.clear();
      fail();
    }
    const auto& further = tokenizer_->further_ends;
    if (further.empty() || !is_set(tokenizer_->model.eog_tokens()[0])) return;
    for (const int32_t token : further) {
      const auto i = static_cast<size_t>(token);
      mask_[i / kBits] |= 1U << (i % kBits);
    }
  }

  bool is_set(int32_t token) const {
    const auto i = static_cast<size_t>(token);
    return ((mask_[i / kBits] >> (i % kBits)) & 1U) != 0;
  }

  void check() const {
    if (!matcher_) throw Error(LH_SAMPLER_ERROR, "llguidance gave nothing");
    if (functions.matcher_get_error(matcher_.get()) != nullptr) fail();
  }

  // A message of llguidance starts with the reason. The rest may be the whole state of
  // llguidance.
  [[noreturn]] void fail() const {
    constexpr size_t kShown = 400;
    shared_->has_failed.store(true);
    const char* why = functions.matcher_get_error(matcher_.get());
    std::string reason = why == nullptr ? "no reason given" : why;
    const bool is_stuck = reason.rfind("NoExtension", 0) == 0;
    const bool is_large = reason.find("lexer error: too many") != std::string::npos ||
                          reason.find("Current row has") != std::string::npos;
    for (const char* rest : {"\n<state>", "\n<backtrace>"}) {
      reason = reason.substr(0, reason.find(rest));
    }
    reason = reason.substr(0, kShown);
    if (is_stuck) reason = "nothing can follow the grammar (" + reason + ")";
    if (is_large) {
      reason =
          "it needs more states than are kept; fewer or smaller repetitions, or "
          "fewer alternatives, help (" +
          reason + ")";
    }
    throw Error(LH_SAMPLER_ERROR, reason);
  }

  const Vocabulary* tokenizer_;
  Matcher matcher_;
  std::shared_ptr<Shared> shared_;
  // one bit per token, set if allowed; empty: not computed yet
  std::vector<uint32_t> mask_;
};

const char* name_of_kind(int32_t kind) {
  switch (kind) {
    case LH_GRAMMAR_JSON_SCHEMA:
      return "json_schema";
    case LH_GRAMMAR_REGEX:
      return "regex";
    case LH_GRAMMAR_LARK:
      return "lark";
    default:
      throw Error(LH_INVALID_ARGUMENT,
                  "grammar_kind must be an lh_grammar_kind, not " + std::to_string(kind));
  }
}

// Returns whether a number is below the float of 64 bits that follows -2^63.
bool is_too_small(std::string_view number) {
  constexpr double kLeast = -9223372036854774784.0;
  constexpr size_t kLength = 20;  // of -2^63
  if (number.size() < kLength && number.find_first_of("eE") == number.npos) return false;
  std::istringstream in{std::string(number)};
  in.imbue(std::locale::classic());
  double value = 0;
  in >> value;  // the largest float of the sign if the number is larger
  return value < kLeast;
}

// Rejects numbers that llguidance rounds to the smallest integer of 64 bits, because its
// recursion over ranges of integers never ends there, which ends the process (version
// 1.9). A Lark grammar has numbers only in its schemas (%json); its quotation marks may
// be part of a regular expression, so its strings are read, too.
void check_numbers(int32_t kind, std::string_view text) {
  const bool is_lark = kind == LH_GRAMMAR_LARK;
  if (kind == LH_GRAMMAR_REGEX) return;
  if (is_lark && text.find("%json") == text.npos) return;
  bool is_in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_in_string && text[i] == '\\') {
      ++i;  // the escaped character
    } else if (text[i] == '"') {
      is_in_string = !is_in_string && !is_lark;
    } else if (!is_in_string && text[i] == '-') {
      const size_t end = text.find_first_not_of("-+.eE0123456789", i);
      const std::string_view number = text.substr(i, end - i);
      if (is_too_small(number)) {
        throw Error(LH_SAMPLER_ERROR,
                    "numbers of a schema must be at least -2^63 + 1024: " +
                        std::string(number.substr(0, 40)));
      }
      i += number.size() - 1;
    }
  }
}

}  // namespace

void set_llguidance(const lh_llguidance& api) {
  Functions all{};
  if (api.get_version != nullptr) {
    take("get_version", api.get_version, all.get_version);
  }
  if (api.new_tokenizer_v2 == nullptr && api.new_tokenizer != nullptr) {
    take("new_tokenizer", api.new_tokenizer, all.new_tokenizer);
  } else {
    take("new_tokenizer_v2", api.new_tokenizer_v2, all.new_tokenizer_v2);
  }
  take("free_tokenizer", api.free_tokenizer, all.free_tokenizer);
  take("constraint_init_set_defaults", api.constraint_init_set_defaults,
       all.constraint_init_set_defaults);
  take("new_matcher", api.new_matcher, all.new_matcher);
  take("clone_matcher", api.clone_matcher, all.clone_matcher);
  take("free_matcher", api.free_matcher, all.free_matcher);
  take("matcher_get_error", api.matcher_get_error, all.matcher_get_error);
  take("matcher_compute_mask_into", api.matcher_compute_mask_into,
       all.matcher_compute_mask_into);
  take("matcher_consume_tokens", api.matcher_consume_tokens, all.matcher_consume_tokens);
  take("matcher_compute_ff_tokens", api.matcher_compute_ff_tokens,
       all.matcher_compute_ff_tokens);
  take("matcher_is_accepting", api.matcher_is_accepting, all.matcher_is_accepting);
  take("matcher_is_stopped", api.matcher_is_stopped, all.matcher_is_stopped);
  take("tokenize_bytes", api.tokenize_bytes, all.tokenize_bytes);
  if (all.get_version != nullptr) {
    const std::string version = all.get_version();
    require(version.rfind("llguidance@1.", 0) == 0,
            "llamaherd needs llguidance from 1.5 on and below 2, not " + version);
  }
  // Set only once, because objects of one library must be freed by the same library.
  if (has_functions.load()) return;
  functions = all;
  has_functions.store(true);
}

std::unique_ptr<Constraint> start_llguidance(const lh_model& model, int32_t kind,
                                             const char* text) {
  const char* name = name_of_kind(kind);
  if (!has_functions.load()) {
    throw Error(LH_SAMPLER_ERROR, std::string("a constraint of the kind ") + name +
                                      " needs llguidance: see lh_set_llguidance");
  }
  const size_t n_bytes = std::string_view(text).size();
  require(n_bytes <= kMostText, std::string(name) + " has " + std::to_string(n_bytes) +
                                    " bytes; at most " + std::to_string(kMostText) +
                                    " can be compiled");
  check_numbers(kind, text);
  const Vocabulary& tokenizer = vocabulary_of(model);
  LlgConstraintInit init{};
  functions.constraint_init_set_defaults(&init, tokenizer.native.get());
  init.log_buffer_level = 0;
  init.log_stderr_level = 0;
  Matcher matcher;
  const auto compile = [&] { matcher.reset(functions.new_matcher(&init, name, text)); };
  if (n_bytes <= kShortText) {
    compile();
  } else {
    run_with_stack(n_bytes * kStackPerByte, compile);
  }
  return std::make_unique<LlgConstraint>(tokenizer, std::move(matcher),
                                         std::make_shared<Shared>());
}

// If the constraint forces tokens that differ from the tokens of the whole text, the rest
// of the text is tokenized again after them.
bool accepts_text(Constraint& constraint, const lh_model& model, std::string_view text) {
  const Vocabulary& tokenizer = vocabulary_of(model);
  std::vector<uint32_t> tokens = tokenizer.tokenize(text);
  for (size_t i = 0; i < tokens.size(); ++i) {
    auto token = static_cast<int32_t>(tokens[i]);
    if (!model.contains(token)) return false;
    if (!constraint.allows(token)) {
      const std::vector<int32_t> forced = constraint.forced_tokens();
      if (forced.empty()) return false;
      token = forced.front();
      const std::string piece = model.piece(token);
      if (text.substr(0, piece.size()) != piece) return false;
      tokens = tokenizer.tokenize(text.substr(piece.size()));
      tokens.insert(tokens.begin(), static_cast<uint32_t>(token));
      i = 0;
    }
    text.remove_prefix(std::min(text.size(), model.piece(token).size()));
    constraint.accept(token);
  }
  return constraint.is_complete();
}

}  // namespace lh
