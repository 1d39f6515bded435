/* The tokens that grammars allow, against libllama's own grammars, on the vocabulary of
 * SmolLM2-135M-Instruct: along random texts of each grammar. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>

#include "check.h"
#include "grammar_matcher.hpp"
#include "prepared.hpp"

namespace {

constexpr int kTexts = 4;
constexpr int kMaxTokens = 24;

const char* const kGrammars[] = {
    "root ::= \"yes\" | \"no\"",
    "root ::= \" \"? (\"very \" | \"not \")* (\"good\" | \"bad\" | \"gut\" | "
    "\"schlecht\")",
    "root ::= [0-9]{1,3} (\".\" [0-9]{2})? \" \" [a-z]+",
    "root ::= \"\\u00fcber\" [\\u00e4\\u00f6\\u00fc\\u4e00-\\u9fff\\U0001F600]+ | "
    "\"na\\u00efve\"",
    "root ::= [^\\x00-\\x1f\"]{0,40}",
    "root ::= . . .+ \"\\n\"",
    "root ::= item | item \", \" root\nitem ::= [A-Z] [a-z]{2,8}",
    "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"d\" | \" \" root",
    "root ::= sum\nsum ::= product (\" + \" product)*\n"
    "product ::= factor (\"*\" factor)*\nfactor ::= [0-9]+ | \"(\" sum \")\"",
    "root ::= object\n"
    "value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
    "object ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? "
    "\"}\" ws\n"
    "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"
    "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" "
    "[0-9a-f]{4}))*"
    " \"\\\"\" ws\n"
    "number ::= \"-\"? ([0-9] | [1-9] [0-9]{0,15}) (\".\" [0-9]+)? ws\n"
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}",
    "root ::= <|im_start|> \"a\" <[5]> | !<[28]> [a-z]",
};

// Returns, for each token of the vocabulary, whether libllama's grammar allows it.
std::vector<bool> their_mask(llama_sampler* theirs, int32_t n_vocab) {
  std::vector<llama_token_data> data;
  for (int32_t i = 0; i < n_vocab; ++i) data.push_back({i, 0.0F, 0.0F});
  llama_token_data_array candidates = {data.data(), data.size(), -1, false};
  llama_sampler_apply(theirs, &candidates);
  std::vector<bool> allowed;
  for (const llama_token_data& c : data) allowed.push_back(c.logit == 0.0F);
  return allowed;
}

bool ends_whole(lh::GrammarMatcher text, const lh_model& model, int32_t token) {
  text.accept(token);
  return text.allows(model.eog_tokens().front());
}

void follow(const lh_model& model, const char* gbnf, std::mt19937& random) {
  const auto start = [&](const char* text) {
    lh_sampling_params p{};
    p.grammar = text;
    const auto prepared = lh::PreparedConstraints::of(model).constraint(p);
    return dynamic_cast<const lh::GrammarMatcher&>(*prepared);
  };
  lh::GrammarMatcher ours = start(gbnf);
  lh::GrammarMatcher any = start("root ::= .*");
  const llama_sampler_ptr theirs(llama_sampler_init_grammar(model.vocab(), gbnf, "root"));
  for (int n = 0; n < kMaxTokens; ++n) {
    const std::vector<int32_t> tokens = ours.allowed_tokens();
    std::vector<bool> allowed(static_cast<size_t>(model.n_vocab()));
    for (const int32_t token : tokens) allowed[static_cast<size_t>(token)] = true;
    const std::vector<bool> mask = their_mask(theirs.get(), model.n_vocab());
    int n_more = 0;
    int n_fewer = 0;
    for (int32_t token = 0; token < model.n_vocab(); ++token) {
      const auto i = static_cast<size_t>(token);
      if (allowed[i] == mask[i]) continue;
      // libllama's grammars read the names of control tokens as text, and bytes that are
      // not UTF-8. For "any token except one" they allow neither NUL nor a part of a
      // character.
      const bool is_text = !model.piece(token).empty() && any.allows(token);
      n_more += allowed[i] && is_text && ends_whole(any, model, token) ? 1 : 0;
      n_fewer += !allowed[i] && is_text ? 1 : 0;
    }
    CHECK(n_more == 0);
    CHECK(n_fewer == 0);
    CHECK(!tokens.empty());
    if (n_more + n_fewer > 0 || tokens.empty()) {
      std::fprintf(stderr, "after %d tokens of %s\n", n, gbnf);
      return;
    }
    const int32_t token = tokens[random() % tokens.size()];
    CHECK(ours.allows(token));
    if (model.is_eog(token)) return;
    ours.accept(token);
    llama_sampler_accept(theirs.get(), token);
    if (!model.piece(token).empty()) any.accept(token);
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
  std::mt19937 random(7);
  for (const char* gbnf : kGrammars) {
    for (int i = 0; i < kTexts; ++i) follow(*model, gbnf, random);
  }
  std::printf("grammar: %d passed, %d failed\n", n_passed, n_failed);
  return n_failed == 0 ? 0 : 1;
}
