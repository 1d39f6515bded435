#include "prefix_tree.hpp"

#include <algorithm>
#include <numeric>

#include "guard.hpp"

namespace lh {
namespace {

// Prompts first .. last (indices in the sorted order) that share `length` tokens.
struct Interval {
  int32_t length;
  int32_t first;
  int32_t last;
};

struct Prompts {
  const int32_t* tokens;
  const int64_t* offsets;

  const int32_t* begin(int32_t i) const { return tokens + offsets[i]; }
  const int32_t* end(int32_t i) const { return tokens + offsets[i + 1]; }

  // Number of tokens that two prompts can share, without the last token of each.
  int32_t n_common(int32_t a, int32_t b) const {
    const auto size = std::min(end(a) - begin(a), end(b) - begin(b));
    if (size == 0) return 0;
    const auto* stop = begin(a) + size - 1;
    return static_cast<int32_t>(std::mismatch(begin(a), stop, begin(b)).first - begin(a));
  }
};

std::vector<Interval> find_intervals(const std::vector<int32_t>& common) {
  // common[i]: number of tokens shared by the sorted prompts i - 1 and i; common[0] is
  // unused.
  std::vector<Interval> done;
  std::vector<Interval> open;
  const auto n = static_cast<int32_t>(common.size());
  for (int32_t i = 1; i <= n; ++i) {
    const int32_t length = i < n ? common[static_cast<size_t>(i)] : 0;
    int32_t first = i - 1;
    while (!open.empty() && open.back().length > length) {
      open.back().last = i - 1;
      first = open.back().first;
      done.push_back(open.back());
      open.pop_back();
    }
    if (length > 0 && (open.empty() || open.back().length < length)) {
      open.push_back({length, first, first});
    }
  }
  // Depth-first: parents before children, left before right.
  std::sort(done.begin(), done.end(), [](const Interval& a, const Interval& b) {
    return a.first != b.first ? a.first < b.first : a.length < b.length;
  });
  return done;
}

}  // namespace

int32_t min_prefix_tokens(int64_t n_cells) {
  // With fewer tokens, computing them again is faster than holding a prefix.
  constexpr int64_t kMinTokens = 8;
  // A fork copies all n_cells cells of a sequence. The copy takes about as long as
  // computing n_cells / kForkShare tokens, see docs/decisions/0004.
  constexpr int64_t kForkShare = 64;
  return static_cast<int32_t>(
      std::clamp<int64_t>(n_cells / kForkShare, kMinTokens, INT32_MAX));
}

PrefixTree build_prefix_tree(const int32_t* tokens, const int64_t* offsets,
                             int32_t n_prompts, int32_t min_tokens) {
  const Prompts prompts = {tokens, offsets};
  for (int32_t i = 0; i < n_prompts; ++i) {
    require(offsets[i] >= 0 && offsets[i] <= offsets[i + 1],
            "offsets must not decrease; they do at " + std::to_string(i));
  }
  const auto n = static_cast<size_t>(n_prompts);
  PrefixTree tree;
  tree.order.resize(n);
  tree.node_of.assign(n, -1);
  std::iota(tree.order.begin(), tree.order.end(), 0);
  std::stable_sort(tree.order.begin(), tree.order.end(), [&](int32_t a, int32_t b) {
    return std::lexicographical_compare(prompts.begin(a), prompts.end(a),
                                        prompts.begin(b), prompts.end(b));
  });
  std::vector<int32_t> common(n, 0);
  for (size_t i = 1; i < n; ++i) {
    common[i] = prompts.n_common(tree.order[i - 1], tree.order[i]);
  }

  std::vector<int32_t> path;  // nodes that enclose the current interval, outermost first
  std::vector<int32_t> node_last;
  for (const Interval& interval : find_intervals(common)) {
    while (!path.empty() &&
           node_last[static_cast<size_t>(path.back())] < interval.first) {
      path.pop_back();
    }
    const int32_t parent = path.empty() ? -1 : path.back();
    const int32_t parent_length =
        parent < 0 ? 0 : tree.node_length[static_cast<size_t>(parent)];
    if (interval.length - parent_length < std::max(min_tokens, 1)) continue;
    const auto node = static_cast<int32_t>(tree.node_length.size());
    tree.node_parent.push_back(parent);
    tree.node_length.push_back(interval.length);
    tree.node_prompt.push_back(tree.order[static_cast<size_t>(interval.first)]);
    node_last.push_back(interval.last);
    path.push_back(node);
    // Children come later and overwrite the node of their parent, so that each prompt has
    // its deepest node.
    for (int32_t i = interval.first; i <= interval.last; ++i) {
      tree.node_of[static_cast<size_t>(tree.order[static_cast<size_t>(i)])] = node;
    }
  }
  return tree;
}

}  // namespace lh
