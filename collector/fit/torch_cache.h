// PyTorch's caching allocator of one device by its rules, without a device: which idle piece a
// request gets, what is split off it, which segments the driver is asked for and which go back when
// it refuses. The rules are those of its releases since 2019, for one stream, without graphs'
// pools, segments that grow in place and limits of its own; PoolHistory finds out whether a
// recorded run went by them, held_run.h asks what they make of less memory.
//
//   request        rounded to   segment                        rest is split off
//   up to 1 MiB    512 bytes    2 MiB, of the small ones       from 512 bytes on
//   below 10 MiB   512 bytes    20 MiB                         beyond 1 MiB
//   others         512 bytes    as large, in steps of 2 MiB    beyond 1 MiB
//
// A request gets the smallest idle piece that is large enough, of equal ones the lowest.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace gpupeak::collector {

class TorchCache {
 public:
  using Piece = uint32_t;  ///< as long as it is neither split nor merged
  static constexpr uint64_t kRound = 512;
  static constexpr uint64_t kSmall = 1u << 20;  ///< the largest request of the small ones
  static constexpr uint64_t kSmallSegment = 2u << 20, kLargeSegment = 20u << 20;
  static constexpr uint64_t kLarge = 10u << 20;  ///< from here on a segment is for one request

  /// Of `bytes`, a multiple of kRound.
  static bool is_small(uint64_t bytes) { return bytes <= kSmall; }
  /// What the driver is asked for if no idle piece will do.
  static uint64_t segment_for(uint64_t bytes);
  /// Whether a request leaves the rest of such a piece idle.
  static bool splits(uint64_t piece_bytes, uint64_t bytes) {
    return piece_bytes - bytes >= (is_small(bytes) ? kRound : kSmall + 1);
  }

  /// The idle piece for a request; none: it takes a new segment.
  std::optional<Piece> find(uint64_t bytes) const;
  /// The largest idle piece of its kind that is smaller than that; 0: none.
  uint64_t largest_below(uint64_t bytes) const;
  uint64_t bytes_of(Piece piece) const { return pieces_[piece].bytes; }
  uint64_t address_of(Piece piece) const { return pieces_[piece].address; }

  /// From the driver, for a request of so many bytes. Idle. `address`: above 0, and of no other.
  Piece add_segment(uint64_t address, uint64_t bytes, bool small);
  /// Gives a request its part of an idle piece; the rest stays idle.
  void take(Piece piece, uint64_t bytes);
  /// Idle again, with its neighbours if they are.
  void put_back(Piece piece);
  /// Back to the driver, what is idle as a whole. Returns its bytes.
  uint64_t release_idle();
  /// One that is idle as a whole; false: there is none such.
  bool release(uint64_t address, uint64_t bytes);
  bool has_idle_segment() const;

  uint64_t reserved() const { return reserved_; }

 private:
  static constexpr Piece kNone = UINT32_MAX;
  struct Part {
    uint64_t address = 0, bytes = 0;
    Piece before = kNone, after = kNone;  // neighbours in the segment
    bool small = false, idle = false;
  };
  struct Idle {
    uint64_t bytes, address;
    Piece piece;
    bool operator<(const Idle& other) const {
      return bytes != other.bytes ? bytes < other.bytes : address < other.address;
    }
  };
  using IdleSet = std::set<Idle>;

  IdleSet& idle_of(bool small) { return idle_[small ? 1 : 0]; }
  const IdleSet& idle_of(bool small) const { return idle_[small ? 1 : 0]; }
  bool is_whole(const Part& part) const { return part.before == kNone && part.after == kNone; }
  Piece make(const Part& part);
  void set_idle(Piece piece);
  void unset_idle(Piece piece);
  void drop(Piece piece);

  std::vector<Part> pieces_;
  std::vector<Piece> unused_;
  std::array<IdleSet, 2> idle_;
  uint64_t reserved_ = 0;
};

}  // namespace gpupeak::collector
