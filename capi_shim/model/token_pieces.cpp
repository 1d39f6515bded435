#include "token_pieces.hpp"

#include <algorithm>

namespace lh {

TokenPieces::TokenPieces(const std::vector<std::string>& pieces) {
  std::vector<size_t> order;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!pieces[i].empty()) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return pieces[a] < pieces[b]; });
  std::string_view previous;
  for (const size_t i : order) {
    const std::string_view piece = pieces[i];
    const auto differ =
        std::mismatch(piece.begin(), piece.end(), previous.begin(), previous.end());
    entries_.push_back({static_cast<int32_t>(i), static_cast<uint32_t>(bytes_.size()),
                        static_cast<uint32_t>(piece.size()),
                        static_cast<uint32_t>(differ.first - piece.begin())});
    bytes_ += piece;
    longest_ = std::max(longest_, piece.size());
    previous = piece;
  }
}

}  // namespace lh
