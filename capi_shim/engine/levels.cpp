#include "levels.hpp"

#include "amx.hpp"
#include "round_up.hpp"

namespace lh {
namespace {

constexpr int64_t kFixedCost = 8;
constexpr int64_t kCellsPerRow = 256;  // that attention reads in the time of a row

// Of a computation, in rows. A whole block hides what does not depend on its rows.
int64_t cost(int64_t n_rows, bool amx) {
  if (n_rows == 0) return 0;
  if (!amx) return kFixedCost + n_rows;
  if (n_rows >= kAmxRows) return round_up<int64_t>(n_rows, kAmxRows);
  return kFixedCost + n_rows * (kAmxRows - kFixedCost) / kAmxRows;
}

// Of the parts before one, and as far as the longest of them goes of all that follow.
struct Best {
  int64_t cost;
  int32_t n_fillers;
  size_t first;  // of the last ones, which have the same length
};

}  // namespace

std::vector<int32_t> level(const std::vector<Length>& lengths, int32_t room, bool amx) {
  std::vector<Best> best{{0, 0, 0}};
  for (size_t end = 1; end <= lengths.size(); ++end) {
    const int32_t n = lengths[end - 1].n_tokens;
    best.push_back({INT64_MAX, 0, 0});
    int32_t n_fillers = 0;
    int64_t n_read = 0;  // cells, by fillers
    for (size_t first = end; first-- > 0;) {
      const int32_t n_more = n - lengths[first].n_tokens;
      n_fillers += n_more;
      n_read += int64_t{n_more} * lengths[first].position;
      if (n_more > 0 && n > lengths[first].limit) break;
      const int32_t n_all = best[first].n_fillers + n_fillers;
      if (n_all > room) continue;
      const int32_t before = first == 0 ? 0 : lengths[first - 1].n_tokens;
      const auto n_rows = static_cast<int64_t>(lengths.size() - first) * (n - before);
      const int64_t all = best[first].cost + cost(n_rows, amx) + n_read / kCellsPerRow;
      if (all < best[end].cost) best[end] = {all, n_all, first};
    }
  }
  std::vector<int32_t> levels(lengths.size());
  for (size_t end = lengths.size(); end > 0; end = best[end].first) {
    for (size_t i = best[end].first; i < end; ++i) levels[i] = lengths[end - 1].n_tokens;
  }
  return levels;
}

}  // namespace lh
