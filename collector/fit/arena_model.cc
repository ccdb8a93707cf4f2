#include "collector/fit/arena_model.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

namespace gpupeak::collector {

std::optional<SegmentPieces::Piece> SegmentPieces::find(uint64_t bytes, Kinds kinds) const {
  const Idle* best = nullptr;
  for (Kind kind = 0; kind < idle_.size(); ++kind) {
    if ((kinds >> kind & 1) == 0) continue;
    const auto found = idle_[kind].lower_bound({bytes, 0, kNone});
    if (found != idle_[kind].end() && (best == nullptr || *found < *best)) best = &*found;
  }
  return best == nullptr ? std::nullopt : std::optional(best->piece);
}

uint64_t SegmentPieces::largest_below(uint64_t bytes, Kinds kinds) const {
  uint64_t largest = 0;
  for (Kind kind = 0; kind < idle_.size(); ++kind) {
    if ((kinds >> kind & 1) == 0) continue;
    const auto above = idle_[kind].lower_bound({bytes, 0, kNone});
    if (above != idle_[kind].begin()) largest = std::max(largest, std::prev(above)->bytes);
  }
  return largest;
}

SegmentPieces::Piece SegmentPieces::make(const Part& part) {
  if (unused_.empty()) {
    pieces_.push_back(part);
    return static_cast<Piece>(pieces_.size() - 1);
  }
  const Piece piece = unused_.back();
  unused_.pop_back();
  pieces_[piece] = part;
  return piece;
}

void SegmentPieces::set_idle(Piece piece) {
  Part& part = pieces_[piece];
  part.idle = true;
  idle_[part.kind].insert({part.bytes, part.address, piece});
}

void SegmentPieces::unset_idle(Piece piece) {
  Part& part = pieces_[piece];
  part.idle = false;
  idle_[part.kind].erase({part.bytes, part.address, piece});
}

SegmentPieces::Piece SegmentPieces::add_segment(uint64_t address, uint64_t bytes, Kind kind) {
  const Piece piece = make({address, bytes, kNone, kNone, kind, false});
  set_idle(piece);
  reserved_ += whole_driver_pages(bytes);
  reserved_bytes_ += bytes;
  return piece;
}

void SegmentPieces::take(Piece piece, uint64_t bytes, Kind kind) {
  unset_idle(piece);
  const Part whole = pieces_[piece];
  pieces_[piece].kind = kind;
  if (bytes >= whole.bytes) return;
  const Piece rest =
      make({whole.address + bytes, whole.bytes - bytes, piece, whole.after, whole.kind, false});
  if (whole.after != kNone) pieces_[whole.after].before = rest;
  pieces_[piece].bytes = bytes;
  pieces_[piece].after = rest;
  set_idle(rest);
}

/// Joins the piece with the next one. Both must be idle.
void SegmentPieces::join_next(Piece piece) {
  const Piece next = pieces_[piece].after;
  pieces_[piece].bytes += pieces_[next].bytes;
  pieces_[piece].after = pieces_[next].after;
  if (pieces_[piece].after != kNone) pieces_[pieces_[piece].after].before = piece;
  unused_.push_back(next);
}

void SegmentPieces::put_back(Piece piece) {
  if (const Piece after = pieces_[piece].after; joins(pieces_[piece], after)) {
    unset_idle(after);
    join_next(piece);
  }
  if (const Piece before = pieces_[piece].before; joins(pieces_[piece], before)) {
    unset_idle(before);
    join_next(before);
    piece = before;
  }
  set_idle(piece);
}

void SegmentPieces::forget_kinds() {
  std::vector<Piece> idle;
  for (const Idle& one : idle_[1]) idle.push_back(one.piece);
  for (const Piece piece : idle) unset_idle(piece);
  for (Part& part : pieces_) part.kind = 0;
  for (const Piece piece : idle) put_back(piece);
}

void SegmentPieces::drop(Piece piece) {
  unset_idle(piece);
  reserved_ -= whole_driver_pages(pieces_[piece].bytes);
  reserved_bytes_ -= pieces_[piece].bytes;
  unused_.push_back(piece);
}

void SegmentPieces::release_idle() {
  std::vector<Piece> whole;
  for (const IdleSet& idle : idle_) {
    for (const Idle& one : idle) {
      if (is_whole(pieces_[one.piece])) whole.push_back(one.piece);
    }
  }
  for (const Piece piece : whole) drop(piece);
}

bool SegmentPieces::release(uint64_t address, uint64_t bytes) {
  for (const IdleSet& idle : idle_) {
    const auto found = idle.find({bytes, address, kNone});
    if (found == idle.end() || !is_whole(pieces_[found->piece])) continue;
    drop(found->piece);
    return true;
  }
  return false;
}

bool SegmentPieces::has_idle_segment() const {
  for (const IdleSet& idle : idle_) {
    for (const Idle& one : idle) {
      if (is_whole(pieces_[one.piece])) return true;
    }
  }
  return false;
}

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

namespace {

constexpr uint64_t kSmallSegment = 2u << 20, kLargeSegment = 20u << 20;
constexpr uint64_t kLarge = 10u << 20;  // from here on a segment is for one request

bool is_small(uint64_t bytes) {
  return bytes <= TorchCache::kSmall;
}

}  // namespace

ArenaModel::KindsOf TorchCache::kinds_of(const Request& request) const {
  return is_small(request.bytes) ? KindsOf{2, 1, 1} : KindsOf{1, 0, 0};
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

std::multimap<int32_t, std::unique_ptr<ArenaModel>> rules_of(const Replay& replay) {
  std::multimap<int32_t, std::unique_ptr<ArenaModel>> rules;
  std::set<int32_t> seen, torch;
  for (const ArenaTable::Arena& arena : replay.arenas().arenas()) {
    const int32_t device = arena.place;
    if (device < 0 || arena.alloc_count == 0) continue;
    const std::string_view name = replay.name(arena.name);
    const bool is_first = seen.insert(device).second;
    rules.erase(device);
    if (name == "PyTorch" && (is_first || torch.contains(device))) {
      torch.insert(device);
      rules.emplace(device, std::make_unique<TorchCache>());
    } else if (name.starts_with("ONNX Runtime") && is_first && arena.count == 1) {
      using Extends = BfcArena::Extends;
      rules.emplace(device, std::make_unique<BfcArena>(Extends::kNextPowerOfTwo));
      rules.emplace(device, std::make_unique<BfcArena>(Extends::kSameAsRequested));
    }
  }
  return rules;
}

}  // namespace gpupeak::collector
