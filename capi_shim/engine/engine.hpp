// The step-level engine: one llama_context, many clients, one batch per step.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "batch.hpp"
#include "client.hpp"
#include "llama.h"
#include "llamaherd.h"
#include "model.hpp"
#include "sampler.hpp"
#include "sequences.hpp"

struct lh_engine {
 public:
  // abort_flag: ends runs while it is set, and may be set without a lock, even from a
  // signal handler; NULL for one of the engine's own. It must outlive the engine.
  lh_engine(const lh_model& model, const lh_engine_params& params,
            std::atomic<bool>* abort_flag = nullptr);
  ~lh_engine();
  lh_engine(const lh_engine&) = delete;
  lh_engine& operator=(const lh_engine&) = delete;

  lh_engine_info info();
  lh_stats stats();
  void restart_high_water();
  int32_t seq_pos_max(int32_t seq_id);
  lh_client_info get(int64_t id);

  void submit(const lh_request& request);
  // Returns the status that lh_engine_run documents; `message` explains LH_DECODE_ERROR.
  lh_status run(const lh_run_params& params, std::vector<int64_t>& events,
                lh_run_result& result, std::string& message);
  void pause(int64_t id);
  void resume(int64_t id);
  void end(int64_t id, lh_finish reason, const char* message);
  void release(int64_t id);
  void reset();
  void abort(bool on) { abort_flag_->store(on); }

 private:
  // One client's share of the batch being built.
  struct Part {
    lh::Client* client;
    int32_t n_tokens;
    std::vector<int32_t> draft{};  // a guess at what comes behind them
    int32_t n_fillers = 0;         // behind all that
    int32_t i_logits = -1;         // index of its logits in the batch, -1: none asked for
    float* logits = nullptr;       // the row to sample next, if there is one
  };
  // Tokens without a meaning, from a position of a sequence on, until the batch is
  // decoded.
  struct Filler {
    int32_t seq_id;
    int32_t position;
  };
  struct ContextDeleter {
    void operator()(llama_context* ctx) const { llama_free(ctx); }
  };
  using Clients = std::map<int64_t, lh::Client>;
  using ContextPtr = std::unique_ptr<llama_context, ContextDeleter>;

  static ContextPtr make_context(const lh_model& model, const lh_engine_params& params,
                                 lh_engine* self);

  lh::Client& find(int64_t id);
  std::vector<lh::Client*> select(const lh_run_params& params);
  int32_t n_pending(const lh::Client& client) const;
  lh::TextBuffer::Stops stops_of(const lh_request& request);
  int32_t acquire_sequence(bool is_prefix);
  void fork(lh::Client& child, lh::Client& prefix);
  void copy_cells(const lh::Client& from, int32_t to);
  bool copy_state(const lh::Client& from, int32_t to);
  void give_back(lh::Client& client);
  void uncount_cells(lh::Client& client);
  bool save(int32_t seq_id, std::vector<uint8_t>& state);
  bool restore(const std::vector<uint8_t>& state, int32_t seq_id);
  void finish(lh::Client& client, lh_finish reason, const char* message);
  static void judge(lh::Client& client);

  void close_gaps(const std::vector<lh::Client*>& clients);
  bool move_to_gap(lh::Client& client);
  bool build_batch(const std::vector<lh::Client*>& clients, bool draft);
  void choose_parts(const std::vector<lh::Client*>& clients);
  void choose_uniform_parts(const std::vector<lh::Client*>& clients);
  void sort_new(bool prefixes);
  void choose_drafts();
  void level_parts();
  void add_parts();
  void add_part(Part& part);
  void add_fillers(int32_t seq_id, int32_t first, int32_t n, bool logits);
  void add_uniform_prompts();
  void add_uniform_answers();
  void remove_fillers();
  void verify_positions(std::vector<int64_t>& events);
  lh_status decode_batch(lh_run_result& result, std::string& message);
  bool rewind_batch();
  void lose_states();
  bool is_behind(const lh::Client& client) const;
  void advance(lh::Client& client, int32_t n_tokens);
  void after_decode(double seconds, std::vector<int64_t>& events);
  float* find_logits(int32_t i_logits);
  static void read_row(const Part& part, lh::LogitRow& row);
  void read_rows();
  void sample_part(Part& part, lh::LogitRow& row);
  void sample_row(const Part& part, lh::LogitRow& row);
  void hold(lh::Client& prefix);
  void accept(lh::Client& client, int32_t token);

  const lh_model& model_;
  std::atomic<bool> own_abort_flag_{false};
  std::atomic<bool>* abort_flag_;
  ContextPtr ctx_;
  bool kv_unified_;
  bool is_recurrent_;  // some of its layers are, at least
  bool deterministic_;
  bool has_amx_;
  int32_t n_seq_max_;
  int32_t n_threads_;   // that read rows of logits
  int32_t n_fillable_;  // positions that parts may be filled up to
  // Whether sequences have streams of their own that may be filled up, moved and copied
  // in part: no pool, no recurrent states, which cannot be cut, no shapes that must be
  // kept.
  bool loose_streams_;
  bool copies_states_;  // between streams, rather than whole streams

  std::mutex mutex_;
  lh::Positions positions_;
  lh::SequencePool pool_;
  lh::Batch batch_;
  int32_t n_batch_;  // of that, for prompts
  std::vector<Part> parts_;
  std::vector<Filler> fillers_;
  int32_t n_cells_used_ = 0;
  int64_t n_submitted_ = 0;
  bool copies_pending_ = false;  // a copy between streams runs with the next decode
  std::vector<uint8_t> state_;   // the latest that was copied
  const lh::Client* state_of_ = nullptr;  // whose it is, until the next decode
  lh::SamplerCache sampler_cache_;
  lh::TextBuffer::Stops stops_;     // of the last request
  std::vector<lh::LogitRow> rows_;  // of logits, one for each part
  std::vector<llama_token_data> candidates_;
  lh_stats stats_{};
  const int debug_;
  // After what its clients point to (n_cells_used_): members are destroyed in reverse.
  Clients clients_;
};
