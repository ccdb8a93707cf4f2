// A framework's arena on one device by its rules, without a device: which piece a request gets,
// what is split off it, what the driver is asked for, and what the arena does when it is refused.
// ArenaRequests checks whether a recorded run went by the rules; need.h uses them with less
// memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/replay/replay.h"
#include "gpupeak/pages.h"

namespace gpupeak::collector {

// The segments that an arena has from the driver, cut into pieces: each is in use or idle, and
// knows its neighbours; idle ones are sorted by size and address. A piece is of one of two kinds,
// and joins only pieces of its kind.
//
//   segment of 20 MiB   | 4 MiB in use | 2 MiB idle | 14 MiB in use |
//   the 4 MiB are freed | 6 MiB idle                | 14 MiB in use |
//
// This is what all arenas have in common. What is asked of the driver, what is split off, and what
// the two kinds mean are the rules of an ArenaModel.
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
  struct KindsOf {
    SegmentPieces::Kinds may_have;
    SegmentPieces::Kind in_use, segment;
  };
  virtual KindsOf kinds_of(const Request& request) const = 0;
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
    return pieces_.find(request.bytes, kinds_of(request).may_have);
  }
  /// Size of the largest idle piece that is too small for the request.
  uint64_t largest_below(const Request& request) const {
    return pieces_.largest_below(request.bytes, kinds_of(request).may_have);
  }
  Piece add_segment(uint64_t address, uint64_t bytes, const Request& request) {
    return pieces_.add_segment(address, bytes, kinds_of(request).segment);
  }
  void take(Piece piece, const Request& request) {
    const uint64_t whole = pieces_.bytes_of(piece);
    pieces_.take(piece, splits(whole, request.bytes) ? request.bytes : whole,
                 kinds_of(request).in_use);
  }
  SegmentPieces& pieces() { return pieces_; }
  const SegmentPieces& pieces() const { return pieces_; }

 private:
  SegmentPieces pieces_;
};

// ONNX Runtime's arena (best fit with coalescing) by its rules, as 1.29 has them: requests are
// rounded to 256 bytes, and get the smallest idle piece that is large enough, whole unless half of
// it or 128 MiB would be left over. Regions:
//
//   kNextPowerOfTwo    of 1 MiB, doubled until the request fits; if it did at once, the next one is
//                      twice as large, or of 1 GiB from there on (in older releases: without that
//                      bound)
//   kSameAsRequested   as large as the request
//
// A piece that was in use for a stream belongs to the stream until the run ends, also when it is
// idle: it joins no other pieces, and only requests for that stream get it. The model has one
// stream at a time: all requests during a run are for it.
//
// When the driver refuses, it asks for a tenth less and less, down to the request. Nothing goes
// back before its end, except blocks that were reserved: they have memory of their own.
class BfcArena final : public ArenaModel {
 public:
  enum class Extends : uint8_t { kNextPowerOfTwo, kSameAsRequested };
  /// A log does not say how the arena grows. All ways are possible until a segment contradicts one.
  explicit BfcArena(Extends extends);
  std::unique_ptr<ArenaModel> fresh() const override;
  uint64_t rounding() const override { return 256; }
  // Pieces of the stream are of kind 1.
  KindsOf kinds_of(const Request& request) const override {
    return request.on_stream ? KindsOf{3, 1, 0} : KindsOf{1, 0, 0};
  }
  bool splits(uint64_t piece_bytes, uint64_t bytes) const override;
  uint64_t least_for_whole(uint64_t piece_bytes, bool new_segment) const override;
  bool may_take(uint64_t bytes, uint64_t segment_bytes) override;
  bool has_own_segments() const override { return true; }
  uint64_t segment_for(uint64_t bytes) override;
  uint64_t after_refusal(uint64_t bytes, uint64_t segment_bytes, unsigned refusals) override;
  std::string_view when_refused() const override;

 private:
  /// How regions grow.
  struct Growth {
    /// The most that `next` becomes if no request needs more; 0: regions are as large as requests.
    uint64_t bound;
    uint64_t next = 0;  ///< size of the next region
    uint64_t region_for(uint64_t bytes);
  };
  explicit BfcArena(std::vector<Growth> growths) : growths_(std::move(growths)) {}

  std::vector<Growth> growths_;  // not yet contradicted; never empty
};

// PyTorch's caching allocator by its rules: those of its releases since 2019, for one stream,
// without graphs' arenas, segments that grow in place and limits of its own.
//
//   request        rounded to   segment                        rest is split off
//   up to 1 MiB    512 bytes    2 MiB, of the small ones       from 512 bytes on
//   below 10 MiB   512 bytes    20 MiB                         beyond 1 MiB
//   others         512 bytes    as large, in steps of 2 MiB    beyond 1 MiB
//
// When it is refused memory it gives back all segments that are wholly idle, and asks again.
class TorchCache final : public ArenaModel {
 public:
  static constexpr uint64_t kSmall = 1u << 20;  ///< the largest small request

  std::unique_ptr<ArenaModel> fresh() const override { return std::make_unique<TorchCache>(); }
  uint64_t rounding() const override { return 512; }
  // Segments for small requests are of kind 1, and serve no others.
  KindsOf kinds_of(const Request& request) const override;
  bool splits(uint64_t piece_bytes, uint64_t bytes) const override;
  uint64_t least_for_whole(uint64_t piece_bytes, bool new_segment) const override;
  bool may_take(uint64_t bytes, uint64_t segment_bytes) override;
  uint64_t segment_for(uint64_t bytes) override;
  uint64_t after_refusal(uint64_t bytes, uint64_t segment_bytes, unsigned refusals) override;
  std::string_view when_refused() const override;
};

// Finds the rules by which a log's arenas may have gone.

/// For each device of which only one allocator shares out memory: the rules that its arena may have
/// gone by. Several: by any of them; none: not known. PyTorch has one arena for each device, ONNX
/// Runtime one for each session that does not share its arena.
std::multimap<int32_t, std::unique_ptr<ArenaModel>> rules_of(const Replay& replay);

}  // namespace gpupeak::collector
