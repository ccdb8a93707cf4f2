#include "collector/fit/segment_pieces.h"

#include <algorithm>
#include <iterator>

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

}  // namespace gpupeak::collector
