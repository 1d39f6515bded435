// What requests took: each by itself, all of a call, and all that there were.
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
  // call < 0: of all. Zeroes for a call that is not known.
  lh_stats get(int64_t call) const;
  // The counts of a call, for its clients to keep.
  std::shared_ptr<lh_stats> of_call(int64_t call);
  void forget(int64_t call) { calls_.erase(call); }

  // What one client took. All that is counted of clients is added here, so that their
  // numbers add up.
  template <class T>
  void add(Client& client, T lh_stats::* count, T n) {
    client.taken.*count += n;
    client.of_call.get()->*count += n;
    all_.*count += n;
  }

  // A batch is about to be decoded. The others are then about this batch.
  void begin_batch(const std::vector<BatchPart>& parts);
  void count_batch(int32_t n_cells_used);
  void count_failure();
  void count_lost();

 private:
  lh_stats all_{};
  std::map<int64_t, std::shared_ptr<lh_stats>> calls_;
  std::vector<lh_stats*> in_batch_;  // all_, and those of each call with a client in it
};

}  // namespace lh
