#include "collector/fit/torch_cache.h"

#include <iterator>

namespace gpupeak::collector {

uint64_t TorchCache::segment_for(uint64_t bytes) {
  if (is_small(bytes)) return kSmallSegment;
  if (bytes < kLarge) return kLargeSegment;
  return (bytes + kSmallSegment - 1) / kSmallSegment * kSmallSegment;
}

std::optional<TorchCache::Piece> TorchCache::find(uint64_t bytes) const {
  const IdleSet& idle = idle_of(is_small(bytes));
  const auto found = idle.lower_bound({bytes, 0, kNone});
  return found == idle.end() ? std::nullopt : std::optional(found->piece);
}

uint64_t TorchCache::largest_below(uint64_t bytes) const {
  const IdleSet& idle = idle_of(is_small(bytes));
  const auto above = idle.lower_bound({bytes, 0, kNone});
  return above == idle.begin() ? 0 : std::prev(above)->bytes;
}

TorchCache::Piece TorchCache::make(const Part& part) {
  if (unused_.empty()) {
    pieces_.push_back(part);
    return static_cast<Piece>(pieces_.size() - 1);
  }
  const Piece piece = unused_.back();
  unused_.pop_back();
  pieces_[piece] = part;
  return piece;
}

void TorchCache::set_idle(Piece piece) {
  Part& part = pieces_[piece];
  part.idle = true;
  idle_of(part.small).insert({part.bytes, part.address, piece});
}

void TorchCache::unset_idle(Piece piece) {
  Part& part = pieces_[piece];
  part.idle = false;
  idle_of(part.small).erase({part.bytes, part.address, piece});
}

TorchCache::Piece TorchCache::add_segment(uint64_t address, uint64_t bytes, bool small) {
  const Piece piece = make({address, bytes, kNone, kNone, small, false});
  set_idle(piece);
  reserved_ += bytes;
  return piece;
}

void TorchCache::take(Piece piece, uint64_t bytes) {
  unset_idle(piece);
  if (!splits(pieces_[piece].bytes, bytes)) return;
  const Part whole = pieces_[piece];
  const Piece rest =
      make({whole.address + bytes, whole.bytes - bytes, piece, whole.after, whole.small, false});
  if (whole.after != kNone) pieces_[whole.after].before = rest;
  pieces_[piece].bytes = bytes;
  pieces_[piece].after = rest;
  set_idle(rest);
}

void TorchCache::put_back(Piece piece) {
  const Piece before = pieces_[piece].before, after = pieces_[piece].after;
  if (after != kNone && pieces_[after].idle) {
    unset_idle(after);
    pieces_[piece].bytes += pieces_[after].bytes;
    pieces_[piece].after = pieces_[after].after;
    if (pieces_[piece].after != kNone) pieces_[pieces_[piece].after].before = piece;
    unused_.push_back(after);
  }
  if (before != kNone && pieces_[before].idle) {
    unset_idle(before);
    pieces_[before].bytes += pieces_[piece].bytes;
    pieces_[before].after = pieces_[piece].after;
    if (pieces_[before].after != kNone) pieces_[pieces_[before].after].before = before;
    unused_.push_back(piece);
    set_idle(before);
  } else {
    set_idle(piece);
  }
}

void TorchCache::drop(Piece piece) {
  unset_idle(piece);
  reserved_ -= pieces_[piece].bytes;
  unused_.push_back(piece);
}

uint64_t TorchCache::release_idle() {
  std::vector<Piece> whole;
  for (const IdleSet& idle : idle_) {
    for (const Idle& one : idle) {
      if (is_whole(pieces_[one.piece])) whole.push_back(one.piece);
    }
  }
  const uint64_t before = reserved_;
  for (const Piece piece : whole) drop(piece);
  return before - reserved_;
}

bool TorchCache::release(uint64_t address, uint64_t bytes) {
  for (const bool small : {false, true}) {
    const IdleSet& idle = idle_of(small);
    const auto found = idle.find({bytes, address, kNone});
    if (found == idle.end() || !is_whole(pieces_[found->piece])) continue;
    drop(found->piece);
    return true;
  }
  return false;
}

bool TorchCache::has_idle_segment() const {
  for (const IdleSet& idle : idle_) {
    for (const Idle& one : idle) {
      if (is_whole(pieces_[one.piece])) return true;
    }
  }
  return false;
}

}  // namespace gpupeak::collector
