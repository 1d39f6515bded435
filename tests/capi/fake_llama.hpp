// A toy in place of libllama's model, memory and decode functions, for tests.
//
// The fake is strict where libllama is: it refuses positions with a gap, ids out of
// range, tokens outside the vocabulary, and it counts every violation that would have
// ended the process. Its next token is a function of all tokens of the sequence and of
// nothing else, so that a text is right exactly if the cells of its sequence are.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "llama.h"
#include "llamaherd.h"

namespace fake {

constexpr int32_t kVocab = 260;  // bytes, then <s>, </s>, <|x|> and one plain word
constexpr int32_t kBos = 256;
constexpr int32_t kEos = 257;
constexpr int32_t kControl = 258;
constexpr int32_t kPeriod = 7;

enum class Fault { kNone, kNoSlot, kAbort, kInvalid, kFatal, kThrow, kNan, kNull };

struct Settings {
  bool recurrent = false;      // sequences cannot be cut in the middle
  bool encoder = false;        // the model has one
  int32_t n_swa = 0;           // tokens that attention sees, 0: all
  bool strict_window = false;  // cells before the window of a computation's first token
                               // are lost, and must not be needed later (with streams)
  bool memory = true;          // contexts have one
  int32_t n_bad_contexts = 0;  // so many of the next are not made
  int32_t n_ctx_orig = 0;      // what the model says of its original context, 0: nothing
  double eos_share = 0.05;     // how often the toy ends an answer
  double control_share = 0;    // how often the toy writes <|x|>
  double repeat_share = 0;     // how often the token of kPeriod tokens before comes again
  bool fail_state = false;     // state_seq_get_data gives nothing
  bool fail_copy = false;      // memory_seq_cp has no memory left
  int32_t uniform_rows = 1;    // every computation must have a multiple of so many rows
  int32_t decode_ms = 0;       // time one decode takes, until aborted
  size_t n_backends = 1;       // that ggml has, until it loads them from a folder
  // Asked before each decode with its number and the sequence ids in the batch.
  std::function<Fault(int64_t, const std::vector<int32_t>&)> fault;
};

// Folder that ggml was told to load its backends from; "" since reset().
std::string& backends_folder();

// A file that can be loaded as the toy: a GGUF header with nothing behind it.
constexpr const char* kModelPath = LH_EMPTY_GGUF;

// Settings of the contexts made from now on, and what happened since reset().
Settings& settings();
struct Counts {
  std::atomic<int64_t> n_begun{0};  // decodes that compute, or have computed
  std::atomic<int64_t> n_decodes{0};
  std::atomic<int64_t> n_tokens{0};        // decoded; failed batches not counted
  std::atomic<int64_t> n_computations{0};  // that libllama cuts batches of streams into
  std::atomic<int64_t> n_states{0};        // of sequences that were read
  std::atomic<int64_t> n_violations{0};    // calls that libllama would have asserted on
};
Counts& counts();
void reset();

// The most likely token after some tokens.
int32_t next(const std::vector<int32_t>& tokens);

// What the toy answers to a prompt when it is alone: greedy text of at most max_tokens.
std::string answer(std::vector<int32_t> tokens, int32_t max_tokens);

// What the toy says of each token's probability after some tokens: its logarithm.
std::vector<double> logprobs(const std::vector<int32_t>& tokens);

// Cells in use in the context made last, 0 when every sequence is gone.
int32_t n_cells_left();

// What the context made last was made with.
const llama_context_params& last_params();

// Adapters of the context made last, with their scales; its control vector.
const std::vector<std::pair<llama_adapter_lora*, float>>& loras();
const std::vector<float>& cvec();

// Adapters that were loaded and not freed. The toy loads one from any file.
int32_t n_loras();

}  // namespace fake
