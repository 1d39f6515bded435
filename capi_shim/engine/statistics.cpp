#include "statistics.hpp"

#include <algorithm>

namespace lh {

lh_stats Statistics::get(int64_t call) const {
  if (call < 0) return all_;
  const auto entry = calls_.find(call);
  return entry == calls_.end() ? lh_stats{} : *entry->second;
}

std::shared_ptr<lh_stats> Statistics::of_call(int64_t call) {
  auto entry = calls_.find(call);
  if (entry == calls_.end()) {
    entry = calls_.emplace(call, std::make_shared<lh_stats>()).first;
  }
  return entry->second;
}

void Statistics::begin_batch(const std::vector<BatchPart>& parts) {
  in_batch_.assign(1, &all_);
  for (const BatchPart& part : parts) in_batch_.push_back(part.client->of_call.get());
  std::sort(in_batch_.begin(), in_batch_.end());
  in_batch_.erase(std::unique(in_batch_.begin(), in_batch_.end()), in_batch_.end());
}

void Statistics::count_batch(int32_t n_cells_used) {
  for (lh_stats* counts : in_batch_) {
    ++counts->n_batches;
    counts->n_cells_max = std::max<int64_t>(counts->n_cells_max, n_cells_used);
  }
}

void Statistics::count(int64_t lh_stats::* number) {
  for (lh_stats* counts : in_batch_) ++(counts->*number);
}

}  // namespace lh
