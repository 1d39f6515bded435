// The step-level engine: one llama_context, many clients, one batch per step.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client.hpp"
#include "context.hpp"
#include "llamaherd.h"
#include "model.hpp"
#include "sampler.hpp"

struct lh_engine {
 public:
  // abort_flag: ends runs while it is set. The flag may be set without a lock, even in a
  // signal handler, and must outlive the engine. NULL: the engine uses its own flag.
  lh_engine(const lh_model& model, const lh_engine_params& params,
            std::atomic<bool>* abort_flag = nullptr);
  ~lh_engine();
  lh_engine(const lh_engine&) = delete;
  lh_engine& operator=(const lh_engine&) = delete;

  lh_engine_info info();
  // Returns the statistics of a call; call < 0: of all requests.
  lh_stats stats(int64_t call = -1);
  void forget_call(int64_t call);
  int32_t seq_pos_max(int32_t seq_id);
  lh_client_info get(int64_t id);
  lh_piece read(int64_t id, int32_t n_bytes, int32_t n_tokens);

  void submit(const lh_request& request);
  // Returns the status that lh_engine_run documents; `message` explains LH_DECODE_ERROR.
  lh_status run(const lh_run_params& params, int64_t* events, int32_t capacity,
                lh_run_result& result, std::string& message);
  void pause(int64_t id);
  void resume(int64_t id);
  void set_priority(int64_t id, int32_t priority);
  void end(int64_t id, lh_finish reason, const char* message);
  void release(int64_t id);
  void reset();
  void resize(const lh_engine_params& params);
  // abort and wake take no lock and may be called in a signal handler.
  void abort(bool on) { abort_flag_->store(on); }
  void wake() { is_woken_.store(true); }

 private:
  lh::Stage& stage();
  std::string make_stage(const lh_engine_params& params);
  void lose_stage(const std::string& why);
  void save_cells(lh::Client& client);
  std::vector<lh::Client*> take_out_cells();
  void put_back_cells(const std::vector<lh::Client*>& taken);
  lh::Client& find(int64_t id);
  lh::Client make_client(const lh_request& request);
  std::unique_ptr<lh::Task> make_task(const lh_request& request, lh::Client& client);
  std::unique_ptr<lh::Task> make_task_behind(const lh_request& request,
                                             const lh::Client& client, int32_t n_thought);
  lh::Client* find_prefix(const lh_request& request);
  void check_kept(const lh_request& request, const lh::Client& ended);
  void describe_kept(const lh::Client& client, lh_client_info& out);
  void take_over(lh::Client& ended, lh::Client& client, int32_t n_tokens);
  lh::TextBuffer::Stops stops_of(const lh_request& request);

  std::vector<lh::Client*> select(const lh_run_params& params);
  bool build_batch(const std::vector<lh::Client*>& clients, bool may_draft);
  void sample_first(const std::vector<lh::Client*>& clients);
  void verify_positions();
  lh_status decode_batch(lh_run_result& result, std::string& message);
  bool rewind_batch();
  void lose_states();
  bool is_behind(const lh::Client& client) const;
  void after_decode(double seconds);
  void report(lh::Client& client);
  int32_t take_events(int64_t* events, int32_t capacity);
  void count_batch(double seconds);

  const std::shared_ptr<const lh_model> held_model_;  // first member, so destroyed last
  const lh_model& model_;
  std::atomic<bool> own_abort_flag_{false};
  std::atomic<bool>* abort_flag_;
  std::atomic<bool> is_woken_{false};
  const bool is_recurrent_;
  const int debug_;

  std::mutex mutex_;  // protects all members below
  lh::Statistics statistics_;
  std::unique_ptr<lh::Stage> stage_;  // null after a resize without enough memory
  std::string why_no_stage_;
  lh::SamplerCache sampler_cache_;
  lh::TextBuffer::Stops stops_;  // stop texts of the last request
  std::map<int64_t, lh::Client> clients_;
  int64_t n_submitted_ = 0;
  // events that no run has returned yet, e.g. because its caller had no room for them
  std::vector<int64_t> events_;
};
