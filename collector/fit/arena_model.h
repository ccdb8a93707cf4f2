// A framework's arena on one device by its rules, without a device: which piece a request gets,
// what is split off it, what the driver is asked for, and what the arena does when it is refused.
// ArenaRequests checks whether a recorded run went by the rules; held_run.h uses them with less
// memory.
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
    bool on_stream = false;  ///< the request is for a stream's work
  };
  virtual ~ArenaModel() = default;

  /// A model with the same rules for which nothing was asked yet.
  virtual std::unique_ptr<ArenaModel> fresh() const = 0;
  /// Requests are rounded up to a multiple of this, at least to one.
  virtual uint64_t rounding() const = 0;
  uint64_t rounded(uint64_t bytes) const {
    const uint64_t to = rounding();
    return std::max((bytes + to - 1) / to * to, to);
  }
  /// Which kinds of pieces a request may have; which kind the piece is then; which kind a new
  /// segment is that is taken for the request.
  virtual SegmentPieces::Kinds kinds_for(const Request& request) const = 0;
  virtual SegmentPieces::Kind kind_in_use(const Request& request) const = 0;
  virtual SegmentPieces::Kind kind_of_segment(const Request& request) const = 0;
  /// Whether a request gets only a part of a piece of this size, so that the rest stays idle.
  virtual bool splits(uint64_t piece_bytes, uint64_t bytes) const = 0;
  /// The smallest request, rounded, that gets a piece of this size whole. `new_segment`: the piece
  /// is a segment that was taken for the request.
  virtual uint64_t least_for_whole(uint64_t piece_bytes, bool new_segment) const = 0;
  /// Whether a request may take a segment of so many bytes by any of the rules that are still
  /// possible. The others are dropped. If none would be left, all are kept, and the answer is
  /// false.
  virtual bool may_take(uint64_t bytes, uint64_t segment_bytes) = 0;
  /// Whether some requests get a segment of their own, which goes back to the driver with them.
  virtual bool has_own_segments() const { return false; }
  /// Bytes that the driver is asked for.
  virtual uint64_t segment_for(uint64_t bytes) = 0;
  /// Bytes that the driver is asked for next when it has refused `segment_bytes`; 0: the request
  /// fails. `refusals`: how often it has refused for this request by now.
  virtual uint64_t after_refusal(uint64_t bytes, uint64_t segment_bytes, unsigned refusals) = 0;
  /// The arena and what it does then, for people: "PyTorch's pool, which gives back …".
  virtual std::string_view when_refused() const = 0;

  std::optional<Piece> find(const Request& request) const {
    return pieces_.find(request.bytes, kinds_for(request));
  }
  /// Size of the largest idle piece that is too small for the request.
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
