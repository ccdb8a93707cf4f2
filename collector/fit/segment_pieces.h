// The segments that an arena has from the driver, cut into pieces: each is in use or idle, and
// knows its neighbours; idle ones are sorted by size and address. A piece is of one of two kinds,
// and joins only pieces of its kind.
//
//   segment of 20 MiB   | 4 MiB in use | 2 MiB idle | 14 MiB in use |
//   the 4 MiB are freed | 6 MiB idle                | 14 MiB in use |
//
// This is what all arenas have in common. What is asked of the driver, what is split off, and what
// the two kinds mean are the rules of an ArenaModel.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "gpupeak/pages.h"

namespace gpupeak::collector {

class SegmentPieces {
 public:
  using Piece = uint32_t;  ///< as long as it is neither split nor merged
  using Kind = uint8_t;    ///< 0 or 1
  using Kinds = uint8_t;   ///< bits 1 << Kind

  /// The smallest idle piece of so many bytes or more, of equal ones the lowest.
  std::optional<Piece> find(uint64_t bytes, Kinds kinds) const;
  /// The largest idle piece that is smaller than that; 0: none.
  uint64_t largest_below(uint64_t bytes, Kinds kinds) const;
  uint64_t bytes_of(Piece piece) const { return pieces_[piece].bytes; }
  uint64_t address_of(Piece piece) const { return pieces_[piece].address; }

  /// Adds a segment from the driver; it is idle. `address`: above 0; no other segment lies there.
  Piece add_segment(uint64_t address, uint64_t bytes, Kind kind);
  /// A segment of one request: it comes with the request, goes back with it, and is never idle.
  void add_own(uint64_t bytes) {
    reserved_ += whole_driver_pages(bytes);
    reserved_bytes_ += bytes;
  }
  void drop_own(uint64_t bytes) {
    reserved_ -= whole_driver_pages(bytes);
    reserved_bytes_ -= bytes;
  }
  /// Takes an idle piece into use; it is of `kind` now. If `bytes` is less than its size, the rest
  /// is split off and stays idle, with the kind that it had.
  void take(Piece piece, uint64_t bytes, Kind kind);
  /// The piece is idle again, and joined with idle neighbours of its kind.
  void put_back(Piece piece);
  /// All pieces become kind 0.
  void forget_kinds();
  /// Gives all segments back to the driver that are wholly idle.
  void release_idle();
  /// Gives one wholly idle segment back; false: there is none such.
  bool release(uint64_t address, uint64_t bytes);
  bool has_idle_segment() const;

  /// Pages of the driver's.
  uint64_t reserved() const { return reserved_; }
  /// As the driver was asked for.
  uint64_t reserved_bytes() const { return reserved_bytes_; }

 private:
  static constexpr Piece kNone = UINT32_MAX;
  struct Part {
    uint64_t address = 0, bytes = 0;
    Piece before = kNone, after = kNone;  // neighbours in the segment
    Kind kind = 0;
    bool idle = false;
  };
  struct Idle {
    uint64_t bytes, address;
    Piece piece;
    bool operator<(const Idle& other) const {
      return bytes != other.bytes ? bytes < other.bytes : address < other.address;
    }
  };
  using IdleSet = std::set<Idle>;

  bool joins(const Part& part, Piece neighbour) const {
    return neighbour != kNone && pieces_[neighbour].idle && pieces_[neighbour].kind == part.kind;
  }
  bool is_whole(const Part& part) const { return part.before == kNone && part.after == kNone; }
  Piece make(const Part& part);
  void set_idle(Piece piece);
  void unset_idle(Piece piece);
  void join_next(Piece piece);
  void drop(Piece piece);

  std::vector<Part> pieces_;
  std::vector<Piece> unused_;
  std::array<IdleSet, 2> idle_;
  uint64_t reserved_ = 0, reserved_bytes_ = 0;
};

}  // namespace gpupeak::collector
