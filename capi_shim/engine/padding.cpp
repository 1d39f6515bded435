#include "padding.hpp"

#include "amx.hpp"
#include "round_up.hpp"

namespace lh {
namespace {

// Costs are counted in rows. Measured: a round costs as much as eight rows more, and
// attention reads 256 cells in the time of one row.
constexpr int64_t kFixedCost = 8;
constexpr int64_t kCellsPerRow = 256;

int64_t cost_of_round(int64_t n_rows, bool amx) {
  if (n_rows == 0) return 0;
  if (!amx) return kFixedCost + n_rows;
  // The fixed cost disappears behind the arithmetic of a whole block.
  if (n_rows >= kAmxRows) return round_up<int64_t>(n_rows, kAmxRows);
  return kFixedCost + n_rows * (kAmxRows - kFixedCost) / kAmxRows;
}

// The cheapest way to compute the first few parts. The last of them form a group: from
// part `group` on they are padded to the same length.
struct Best {
  int64_t cost;
  int32_t n_padding;
  size_t group;
};

// For all parts before `end`. `best` has the answers for fewer parts.
Best best_before(size_t end, const std::vector<Best>& best,
                 const std::vector<PartLength>& parts, int32_t room, bool amx) {
  const int32_t length = parts[end - 1].n_tokens;
  Best found{INT64_MAX, 0, 0};
  int32_t n_padding = 0;
  int64_t n_read = 0;  // KV cells that padding reads
  // Try every group that ends here, from the smallest on.
  for (size_t group = end; group-- > 0;) {
    const PartLength& part = parts[group];
    const int32_t n_more = length - part.n_tokens;
    if (n_more > 0 && length > part.limit) break;
    n_padding += n_more;
    n_read += int64_t{n_more} * part.position;
    const int32_t n_all = best[group].n_padding + n_padding;
    if (n_all > room) continue;
    // Longer parts take part in this round as well.
    const int32_t shorter = group == 0 ? 0 : parts[group - 1].n_tokens;
    const auto n_rows = static_cast<int64_t>(parts.size() - group) * (length - shorter);
    const int64_t cost =
        best[group].cost + cost_of_round(n_rows, amx) + n_read / kCellsPerRow;
    if (cost < found.cost) found = {cost, n_all, group};
  }
  return found;
}

}  // namespace

std::vector<int32_t> padded_lengths(const std::vector<PartLength>& parts, int32_t room,
                                    bool amx) {
  std::vector<Best> best{{0, 0, 0}};
  for (size_t end = 1; end <= parts.size(); ++end) {
    best.push_back(best_before(end, best, parts, room, amx));
  }
  std::vector<int32_t> lengths(parts.size());
  for (size_t end = parts.size(); end > 0; end = best[end].group) {
    for (size_t i = best[end].group; i < end; ++i) lengths[i] = parts[end - 1].n_tokens;
  }
  return lengths;
}

}  // namespace lh
