// Statistics of requests: per request, per call and in total.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "batch_builder.hpp"
#include "llamaherd.h"

namespace lh {

class Statistics {
 public:
  // Returns the statistics of a call; call < 0: the total. Returns zeros for an unknown
  // call.
  lh_stats get(int64_t call) const;
  // Returns the statistics object of a call, which all clients of the call share.
  std::shared_ptr<lh_stats> of_call(int64_t call);
  void forget(int64_t call) { calls_.erase(call); }

  // Adds to the statistics of a client, its call and the total. All numbers about clients
  // are added by this function, so that the sums agree.
  template <class T>
  void add(Client& client, T lh_stats::* count, T n) {
    client.taken.*count += n;
    client.of_call.get()->*count += n;
    all_.*count += n;
  }

  // Starts a batch; the functions below refer to this batch.
  void begin_batch(const std::vector<BatchPart>& parts);
  void count_batch(int32_t n_cells_used);
  // Adds 1.
  void count(int64_t lh_stats::* number);

 private:
  lh_stats all_{};
  std::map<int64_t, std::shared_ptr<lh_stats>> calls_;
  std::vector<lh_stats*> in_batch_;  // all_, and each call with a client in the batch
};

}  // namespace lh
