// The step-level engine: one llama_context, many clients, one batch per step.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "batch_builder.hpp"
#include "client.hpp"
#include "context.hpp"
#include "kv_cache.hpp"
#include "llama.h"
#include "llamaherd.h"
#include "model.hpp"
#include "sampler.hpp"
#include "step_sampler.hpp"

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
  lh::Client& find(int64_t id);
  lh::Client make_client(const lh_request& request);
  lh::Client* find_prefix(const lh_request& request);
  lh::TextBuffer::Stops stops_of(const lh_request& request);

  std::vector<lh::Client*> select(const lh_run_params& params);
  bool build_batch(const std::vector<lh::Client*>& clients, bool draft);
  void verify_positions(std::vector<int64_t>& events);
  lh_status decode_batch(lh_run_result& result, std::string& message);
  bool rewind_batch();
  void lose_states();
  bool is_behind(const lh::Client& client) const;
  void after_decode(double seconds, std::vector<int64_t>& events);
  void count_batch(double seconds);
  void hold(lh::Client& prefix);

  const lh_model& model_;
  std::atomic<bool> own_abort_flag_{false};
  std::atomic<bool>* abort_flag_;
  lh::ContextPtr ctx_;
  const bool is_recurrent_;
  const int32_t n_prompt_max_;  // tokens of a prompt
  const lh::BatchLimits limits_;
  const int debug_;

  std::mutex mutex_;  // for all below
  lh_stats stats_{};
  lh::KvCache kv_;
  std::unique_ptr<lh::BatchBuilder> builder_;
  lh::StepSampler step_sampler_;
  lh::SamplerCache sampler_cache_;
  lh::TextBuffer::Stops stops_;  // of the last request
  std::map<int64_t, lh::Client> clients_;
  int64_t n_submitted_ = 0;
};
