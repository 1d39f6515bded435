// Any bytes as texts: what a model generates, in pieces and with stop texts; what a user
// writes into a message and a prompt; what C callers hand in; grammars.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "grammar_matcher.hpp"
#include "guard.hpp"
#include "prompt.hpp"
#include "text.hpp"
#include "toy.hpp"
#include "utf8.hpp"

namespace {

void require_true(bool holds) {
  if (!holds) std::abort();
}

// Takes an input apart: sizes are its bytes, too.
class Input {
 public:
  Input(const uint8_t* data, size_t size)
      : left_(reinterpret_cast<const char*>(data), size) {}
  bool empty() const { return left_.empty(); }
  uint8_t byte() {
    const auto taken = take(1);
    return taken.empty() ? 0 : static_cast<uint8_t>(taken[0]);
  }
  std::string_view take(size_t n) {
    const std::string_view taken = left_.substr(0, n);
    left_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() { return take(left_.size()); }

 private:
  std::string_view left_;
};

std::string valid(std::string_view bytes) {
  std::string out;
  lh::append_valid_utf8(out, bytes);
  return out;
}

// The text is the same however the bytes are cut into tokens, is valid, has no stop text.
void generated(Input input) {
  std::vector<std::string> stops;
  for (int n = input.byte() % 4; n > 0; --n) {
    stops.push_back(valid(input.take(input.byte() % 6U)));
    if (stops.back().empty()) stops.pop_back();
  }
  const uint8_t seed = input.byte();
  const std::string bytes(input.rest());
  lh::TextBuffer at_once(stops);
  lh::TextBuffer in_pieces(stops);
  at_once.append(bytes);
  size_t step = seed;
  size_t n_stable = 0;
  for (size_t at = 0; at < bytes.size();) {
    step = step * 5 + 3;
    const size_t n = std::min(bytes.size() - at, step % 7);
    const std::string stable = in_pieces.text().substr(0, n_stable);
    const bool stopped = in_pieces.append(std::string_view(bytes).substr(at, n));
    require_true(in_pieces.text().compare(0, n_stable, stable) == 0);
    at += n;
    if (stopped) break;
    n_stable = in_pieces.n_stable();
    require_true(n_stable <= in_pieces.text().size());
  }
  at_once.finish();
  in_pieces.finish();
  require_true(valid(in_pieces.text()) == in_pieces.text());
  for (const std::string& stop : stops) {
    require_true(in_pieces.text().find(stop) == std::string::npos);
    require_true(at_once.text().find(stop) == std::string::npos);
  }
  // With several stop texts the cut decides which of them is complete first.
  if (stops.size() < 2) require_true(in_pieces.text() == at_once.text());
}

// Marked text contains no special tokens, even if it looks like one.
void message(const lh_model& model, std::string_view text) {
  const std::string marked = lh::mark_literals(model, text);
  for (const int32_t token : lh::tokenize_prompt(model, marked, 1)) {
    require_true(token != fake::kControl && token != fake::kEos);
  }
  lh::tokenize_prompt(model, text, -1);
  lh::tokenize_prompt(model, text, 0);
}

// Sizes and arrays as a C caller gives them.
void c_calls(const lh_model& model, Input input) {
  const int32_t capacity = input.byte();
  const int32_t parse = input.byte() % 5 - 2;
  const std::string text(input.rest());
  std::vector<int32_t> tokens(static_cast<size_t>(capacity));
  int32_t n = -1;
  lh_error error{};
  const auto size = static_cast<int32_t>(text.size());
  const int32_t status = lh_tokenize_prompt(&model, text.data(), size, parse,
                                            tokens.data(), capacity, &n, &error);
  require_true(status != LH_INTERNAL);
  if (status == LH_OK) require_true(n <= capacity);
  std::string marked(static_cast<size_t>(capacity), '\0');
  lh_mark_literals(&model, text.data(), size, marked.data(), capacity, &n, &error);
}

// Above this, asking for each token of the vocabulary by itself takes too long: a
// question for one token may cost as much as the one for all.
constexpr int64_t kMostWork = 20'000;

// A grammar is refused or followed: what it allows of all tokens it allows one by one.
void grammar(const lh_model& model, Input input) {
  const auto seed = input.byte();
  const auto no_token = [](std::string_view) { return -1; };
  try {
    lh::GrammarMatcher matcher(std::make_shared<lh::Grammar>(
                                   input.rest(), lh::TokenNames{no_token, fake::kVocab}),
                               model);
    for (size_t step = 0; step < 8; ++step) {
      const std::vector<int32_t> allowed = matcher.allowed_tokens();
      if (matcher.n_work() > kMostWork) break;
      std::vector<int32_t> one_by_one;
      for (int32_t token = 0; token < fake::kVocab; ++token) {
        if (matcher.allows(token)) one_by_one.push_back(token);
      }
      require_true(allowed == one_by_one);
      if (allowed.empty()) break;
      matcher.accept(allowed[(seed + step * 7) % allowed.size()]);
    }
  } catch (const lh::Error& e) {
    require_true(e.code() == LH_SAMPLER_ERROR);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::unique_ptr<lh_model> model = toy::model();
  Input input(data, size);
  switch (input.byte() % 4) {
    case 0:
      generated(input);
      break;
    case 1:
      message(*model, input.rest());
      break;
    case 2:
      c_calls(*model, input);
      break;
    default:
      grammar(*model, input);
      break;
  }
  return 0;
}
