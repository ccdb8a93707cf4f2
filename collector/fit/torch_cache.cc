#include "collector/fit/torch_cache.h"

#include <algorithm>

namespace gpupeak::collector {
namespace {

constexpr uint64_t kSmall = 1u << 20;  // the largest small request
constexpr uint64_t kSmallSegment = 2u << 20, kLargeSegment = 20u << 20;
constexpr uint64_t kLarge = 10u << 20;  // from here on a segment is for one request

bool is_small(uint64_t bytes) {
  return bytes <= kSmall;
}

}  // namespace

SegmentPieces::Kinds TorchCache::kinds_for(const Request& request) const {
  return is_small(request.bytes) ? 2 : 1;
}

SegmentPieces::Kind TorchCache::kind_in_use(const Request& request) const {
  return is_small(request.bytes) ? 1 : 0;
}

SegmentPieces::Kind TorchCache::kind_of_segment(const Request& request) const {
  return kind_in_use(request);
}

bool TorchCache::splits(uint64_t piece_bytes, uint64_t bytes) const {
  return piece_bytes - bytes >= (is_small(bytes) ? rounding() : kSmall + 1);
}

uint64_t TorchCache::least_for_whole(uint64_t piece_bytes, bool new_segment) const {
  if (is_small(piece_bytes)) return piece_bytes;
  const uint64_t lowest = piece_bytes - std::min(piece_bytes, kSmall);
  return std::max(lowest, new_segment ? kLarge : kSmall + rounding());
}

bool TorchCache::may_take(uint64_t bytes, uint64_t segment_bytes) {
  return segment_for(bytes) == segment_bytes;
}

uint64_t TorchCache::segment_for(uint64_t bytes) {
  if (is_small(bytes)) return kSmallSegment;
  if (bytes < kLarge) return kLargeSegment;
  return whole_driver_pages(bytes);
}

uint64_t TorchCache::after_refusal(uint64_t /*bytes*/, uint64_t segment_bytes, unsigned refusals) {
  if (refusals > 1) return 0;
  pieces().release_idle();
  return segment_bytes;
}

std::string_view TorchCache::when_refused() const {
  return "PyTorch's pool, which gives back what is idle when it is refused memory";
}

}  // namespace gpupeak::collector
