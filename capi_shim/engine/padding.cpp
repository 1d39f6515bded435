#include "padding.hpp"

#include <algorithm>

#include "amx.hpp"
#include "round_up.hpp"

namespace lh {
namespace {

// The unit of cost is one row. In benchmarks, a round costs as much as eight additional
// rows, and attention reads 256 cells in the time of one row.
constexpr int64_t kFixedCost = 8;
constexpr int64_t kCellsPerRow = 256;

int64_t cost_of_round(int64_t n_rows, bool amx) {
  if (n_rows == 0) return 0;
  if (!amx) return kFixedCost + n_rows;
  // For a whole block, the arithmetic takes longer than the fixed cost, which is
  // therefore ignored.
  if (n_rows >= kAmxRows) return round_up<int64_t>(n_rows, kAmxRows);
  return kFixedCost + n_rows * (kAmxRows - kFixedCost) / kAmxRows;
}

// Cheapest computation of the first parts. The parts from `group` to the last part are
// padded to the same length.
struct Best {
  int64_t cost;
  int32_t n_padding;
  size_t group;
};

// Returns the cheapest computation of all parts before `end`. `best` contains the results
// for fewer parts.
Best best_before(size_t end, const std::vector<Best>& best,
                 const std::vector<PartLength>& parts, int32_t room, bool amx) {
  const int32_t length = parts[end - 1].n_tokens;
  Best cheapest{INT64_MAX, 0, 0};
  int32_t n_padding = 0;
  int64_t n_read = 0;  // number of KV cells that padding tokens read
  // Tries every group that ends here, smallest first.
  for (size_t group = end; group-- > 0;) {
    const PartLength& part = parts[group];
    const int32_t n_more = length - part.n_tokens;
    if (n_more > 0 && length > part.limit) break;
    n_padding += n_more;
    n_read += int64_t{n_more} * part.position;
    const int32_t n_all = best[group].n_padding + n_padding;
    if (n_all > room) continue;
    // Longer parts also have tokens in this round.
    const int32_t shorter = group == 0 ? 0 : parts[group - 1].n_tokens;
    const auto n_rows = static_cast<int64_t>(parts.size() - group) * (length - shorter);
    const int64_t cost =
        best[group].cost + cost_of_round(n_rows, amx) + n_read / kCellsPerRow;
    if (cost < cheapest.cost) cheapest = {cost, n_all, group};
  }
  return cheapest;
}

// Returns the total cost of the rounds that compute the answers first to end - 1, whose
// ids are consecutive. Each answer starts at token `done` and has at most `limit` tokens.
int64_t cost_of_answers(const std::vector<AnswerLength>& answers, size_t first,
                        size_t end, int32_t done, int32_t limit, bool amx) {
  int64_t cost = 0;
  for (size_t i = first; i < end;) {
    const auto length = [&](size_t k) { return std::min(answers[k].n_tokens, limit); };
    if (length(i) <= done) {
      ++i;
      continue;
    }
    size_t k = i;
    int32_t shortest = length(i);
    do {
      shortest = std::min(shortest, length(k));
      ++k;
    } while (k < end && length(k) > done &&
             answers[k].seq_id == answers[k - 1].seq_id + 1);
    cost += cost_of_round(static_cast<int64_t>(k - i) * (shortest - done), amx);
    cost += cost_of_answers(answers, i, k, shortest, limit, amx);
    i = k;
  }
  return cost;
}

}  // namespace

int32_t answer_limit(const std::vector<AnswerLength>& answers, bool amx) {
  constexpr int32_t kMost = 64;
  int32_t longest = 1;
  for (const AnswerLength& answer : answers) {
    longest = std::max(longest, std::min(answer.n_tokens, kMost));
  }
  // Cost of one token in a step of all answers, multiplied by the number of answers.
  const auto n = static_cast<int64_t>(answers.size());
  const int64_t step = cost_of_round(n, amx);
  int32_t best = 1;
  int64_t most_saved = INT64_MIN;
  for (int32_t limit = 1; limit <= longest; ++limit) {
    int64_t n_tokens = 0;
    for (const AnswerLength& answer : answers) {
      n_tokens += std::min(answer.n_tokens, limit);
    }
    const int64_t cost = cost_of_answers(answers, 0, answers.size(), 0, limit, amx);
    const int64_t saved = n_tokens * step - cost * n;
    if (saved >= most_saved) {
      most_saved = saved;
      best = limit;
    }
  }
  return best == longest ? INT32_MAX : best;
}

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
