// Toy model: replaces libllama's model, memory and decode functions in tests.
//
// The toy has libllama's checks: it refuses positions with a gap, ids out of range and
// tokens outside the vocabulary, and counts every violation that would have ended the
// process. Its next token is a function of only the tokens of the sequence. A text is
// therefore right if and only if the cells of its sequence are right.
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
  bool recurrent = false;      // sequences cannot be truncated
  bool encoder = false;        // the model has an encoder
  int32_t n_swa = 0;           // tokens in the attention window; 0: all
  bool strict_window = false;  // cells before the window of a computation's first token
                               // are lost, and must not be needed later (with streams)
  bool memory = true;          // contexts have a memory
  int32_t n_bad_contexts = 0;  // the next n contexts cannot be created
  int32_t n_ctx_orig = 0;      // original context in the model's metadata; 0: missing
  double eos_share = 0.05;     // frequency with which the toy ends an answer
  double control_share = 0;    // frequency with which the toy writes <|x|>
  double repeat_share = 0;     // frequency with which the token of kPeriod tokens before
                               // is repeated
  bool fail_state = false;     // state_seq_get_data returns no data
  bool fail_copy = false;      // memory_seq_cp has no memory left
  bool fail_cut = false;       // memory_seq_rm removes no cells after a position
  int32_t uniform_rows = 1;    // the number of rows of every computation must be a
                               // multiple of this
  int32_t decode_ms = 0;       // time of a decode unless aborted
  bool has_gpu = false;        // libllama finds a GPU
  size_t word_stack = 0;       // bytes of stack that llama_tokenize uses for each
                               // character of a word with the spaces that follow
  size_t n_backends = 1;       // backends of ggml before it loads them from a folder
  // Function called before each decode with its number and the sequence ids in the batch.
  std::function<Fault(int64_t, const std::vector<int32_t>&)> fault;
};

// Folder from which ggml was requested to load its backends; "" after reset().
std::string& backends_folder();

// Callback of the log when libllama was last started.
ggml_log_callback& log_at_start();

// A file that can be loaded as the toy: a GGUF header without tensors.
constexpr const char* kModelPath = LH_EMPTY_GGUF;

// Settings of the contexts that are created from now on, and counters since reset().
Settings& settings();
struct Counts {
  std::atomic<int64_t> n_begun{0};  // decodes that started to compute
  std::atomic<int64_t> n_decodes{0};
  std::atomic<int64_t> n_tokens{0};        // decoded, without failed batches
  std::atomic<int64_t> n_computations{0};  // computations into which libllama splits
                                           // batches of streams
  std::atomic<int64_t> n_states{0};        // number of sequence states that were read
  std::atomic<int64_t> n_violations{0};    // calls on which an assertion of libllama
                                           // would have failed
};
Counts& counts();
void reset();

// Returns the most likely token after some tokens.
int32_t next(const std::vector<int32_t>& tokens);

// Returns the toy's answer to a prompt that runs alone: greedy text of at most
// max_tokens.
std::string answer(std::vector<int32_t> tokens, int32_t max_tokens);

// Returns the toy's log-probability of each token after some tokens.
std::vector<double> logprobs(const std::vector<int32_t>& tokens);

// Cells in use in the latest context; 0 if no sequence is left.
int32_t n_cells_left();

// Parameters of the latest context.
const llama_context_params& last_params();

// Adapters of the latest context with their scales, and its control vector.
const std::vector<std::pair<llama_adapter_lora*, float>>& loras();

// Adapters that were loaded and not freed. The toy can load an adapter from any file.
int32_t n_loras();

}  // namespace fake
