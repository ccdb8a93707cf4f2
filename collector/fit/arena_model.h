// A framework's arena of one device by its rules, without a device: which piece a request gets,
// what is split off it, what the driver is asked for, and what the arena does when it is refused.
// ArenaRequests finds out whether a recorded run went by them, held_run.h asks what they make of
// less memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "collector/fit/segment_pieces.h"

namespace gpupeak::collector {

class ArenaModel {
 public:
  using Piece = SegmentPieces::Piece;
  struct Request {
    uint64_t bytes;
    bool on_stream = false;  ///< it is for a stream's work
  };
  virtual ~ArenaModel() = default;

  /// The same rules, and nothing was asked for yet.
  virtual std::unique_ptr<ArenaModel> fresh() const = 0;
  /// Requests are rounded up to multiples of that, and are one at least.
  virtual uint64_t rounding() const = 0;
  uint64_t rounded(uint64_t bytes) const {
    const uint64_t to = rounding();
    return std::max((bytes + to - 1) / to * to, to);
  }
  /// Of which kinds of pieces a request may have one, what the piece is then, and what the new
  /// segment is that is taken for it.
  virtual SegmentPieces::Kinds kinds_for(const Request& request) const = 0;
  virtual SegmentPieces::Kind kind_in_use(const Request& request) const = 0;
  virtual SegmentPieces::Kind kind_of_segment(const Request& request) const = 0;
  /// Whether a request leaves the rest of such a piece idle.
  virtual bool splits(uint64_t piece_bytes, uint64_t bytes) const = 0;
  /// The least that a request may have been, rounded, for that it got such a piece whole.
  /// `new_segment`: that is a whole segment, taken for it.
  virtual uint64_t least_for_whole(uint64_t piece_bytes, bool new_segment) const = 0;
  /// Whether a request may take a segment of so many bytes. Rules that say otherwise are dropped;
  /// if there are none left, nothing has changed.
  virtual bool may_take(uint64_t bytes, uint64_t segment_bytes) = 0;
  /// Whether there are requests that get a segment of their own, which goes back with them.
  virtual bool has_own_segments() const { return false; }
  /// What the driver is asked for.
  virtual uint64_t segment_for(uint64_t bytes) = 0;
  /// And after it has refused `segment_bytes`, `refusals` times by now for this request; 0: the
  /// request fails.
  virtual uint64_t after_refusal(uint64_t bytes, uint64_t segment_bytes, unsigned refusals) = 0;
  /// For people: which arena, which ….
  virtual std::string_view when_refused() const = 0;

  std::optional<Piece> find(const Request& request) const {
    return pieces_.find(request.bytes, kinds_for(request));
  }
  /// The largest idle piece that is too small for the request.
  uint64_t largest_below(const Request& request) const {
    return pieces_.largest_below(request.bytes, kinds_for(request));
  }
  Piece add_segment(uint64_t address, uint64_t bytes, const Request& request) {
    return pieces_.add_segment(address, bytes, kind_of_segment(request));
  }
  void take(Piece piece, const Request& request) {
    const uint64_t whole = pieces_.bytes_of(piece);
    pieces_.take(piece, splits(whole, request.bytes) ? request.bytes : whole, kind_in_use(request));
  }
  SegmentPieces& pieces() { return pieces_; }
  const SegmentPieces& pieces() const { return pieces_; }

 private:
  SegmentPieces pieces_;
};

}  // namespace gpupeak::collector
