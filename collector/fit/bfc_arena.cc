#include "collector/fit/bfc_arena.h"

#include <algorithm>

namespace gpupeak::collector {
namespace {

constexpr uint64_t kFirstRegion = 1u << 20;
constexpr uint64_t kBound = 1u << 30, kNoBound = UINT64_MAX;
constexpr uint64_t kMostIdle = 128u << 20;  // idle rest of a piece that is given whole
constexpr uint64_t kLeastRegion = 8u << 10;

}  // namespace

uint64_t BfcArena::Growth::region_for(uint64_t bytes) {
  if (bound == 0) return bytes;
  const bool fits = bytes <= next;
  while (next < bytes && next < kNoBound / 2) next *= 2;
  const uint64_t region = next;
  if (fits) next = next < bound / 2 ? next * 2 : bound;
  return region;
}

BfcArena::BfcArena(Extends extends) {
  if (extends == Extends::kSameAsRequested) {
    growths_ = {{.bound = 0}};
  } else {
    growths_ = {{kBound, kFirstRegion}, {kNoBound, kFirstRegion}};
  }
}

std::unique_ptr<ArenaModel> BfcArena::fresh() const {
  const uint64_t bound = growths_.front().bound;
  return std::unique_ptr<ArenaModel>(
      new BfcArena(std::vector<Growth>{{bound, bound == 0 ? 0 : kFirstRegion}}));
}

bool BfcArena::splits(uint64_t piece_bytes, uint64_t bytes) const {
  return piece_bytes >= 2 * bytes || piece_bytes - bytes >= kMostIdle;
}

uint64_t BfcArena::least_for_whole(uint64_t piece_bytes, bool new_segment) const {
  if (new_segment && growths_.front().bound == 0) return piece_bytes;  // as large as the request
  const uint64_t most_idle = std::min(piece_bytes / 2, kMostIdle);
  return std::min(rounded(piece_bytes - most_idle + 1), piece_bytes);
}

bool BfcArena::may_take(uint64_t bytes, uint64_t segment_bytes) {
  std::vector<Growth> right;
  for (Growth growth : growths_) {
    if (growth.region_for(bytes) == segment_bytes) right.push_back(growth);
  }
  if (right.empty()) return false;
  growths_ = std::move(right);
  return true;
}

uint64_t BfcArena::segment_for(uint64_t bytes) {
  return growths_.front().region_for(bytes);
}

uint64_t BfcArena::after_refusal(uint64_t bytes, uint64_t segment_bytes, unsigned /*refusals*/) {
  const auto less = rounded(static_cast<uint64_t>(static_cast<float>(segment_bytes) * 0.9F));
  return less < std::max(bytes, kLeastRegion) ? 0 : less;
}

std::string_view BfcArena::when_refused() const {
  return "ONNX Runtime's arena, which asks for less when it is refused memory";
}

}  // namespace gpupeak::collector
