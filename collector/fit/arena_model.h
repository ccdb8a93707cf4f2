// A framework's arena on one device by its rules, without a device: which piece a request gets,
// what is split off it, what the driver is asked for, and what the arena does when it is refused.
// ArenaRequests checks whether a recorded run went by the rules; need.h uses them with less
// memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
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
  std::optional<Piece> find(uint64_t bytes, Kinds kinds) const {
    const Idle* best = nullptr;
    for (Kind kind = 0; kind < idle_.size(); ++kind) {
      if ((kinds >> kind & 1) == 0) continue;
      const auto found = idle_[kind].lower_bound({bytes, 0, kNone});
      if (found != idle_[kind].end() && (best == nullptr || *found < *best)) best = &*found;
    }
    return best == nullptr ? std::nullopt : std::optional(best->piece);
  }
  /// The largest idle piece that is smaller than that; 0: none.
  uint64_t largest_below(uint64_t bytes, Kinds kinds) const {
    uint64_t largest = 0;
    for (Kind kind = 0; kind < idle_.size(); ++kind) {
      if ((kinds >> kind & 1) == 0) continue;
      const auto above = idle_[kind].lower_bound({bytes, 0, kNone});
      if (above != idle_[kind].begin()) largest = std::max(largest, std::prev(above)->bytes);
    }
    return largest;
  }
  uint64_t bytes_of(Piece piece) const { return pieces_[piece].bytes; }
  uint64_t address_of(Piece piece) const { return pieces_[piece].address; }

  /// Adds a segment from the driver; it is idle. `address`: above 0; no other segment lies there.
  Piece add_segment(uint64_t address, uint64_t bytes, Kind kind) {
    const Piece piece = make({address, bytes, kNone, kNone, kind, false});
    set_idle(piece);
    reserved_ += whole_driver_pages(bytes);
    reserved_bytes_ += bytes;
    return piece;
  }
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
  void take(Piece piece, uint64_t bytes, Kind kind) {
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
  /// The piece is idle again, and joined with idle neighbours of its kind.
  void put_back(Piece piece) {
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
  /// All pieces become kind 0.
  void forget_kinds() {
    const std::vector<Piece> idle = list_of(idle_[1], &Idle::piece);
    for (const Piece piece : idle) unset_idle(piece);
    for (Part& part : pieces_) part.kind = 0;
    for (const Piece piece : idle) put_back(piece);
  }
  /// Gives all segments back to the driver that are wholly idle.
  void release_idle() {
    std::vector<Piece> whole;
    for (const IdleSet& idle : idle_) {
      for (const Idle& one : idle) {
        if (is_whole(pieces_[one.piece])) whole.push_back(one.piece);
      }
    }
    for (const Piece piece : whole) drop(piece);
  }
  /// Gives one wholly idle segment back; false: there is none such.
  bool release(uint64_t address, uint64_t bytes) {
    for (const IdleSet& idle : idle_) {
      const auto found = idle.find({bytes, address, kNone});
      if (found == idle.end() || !is_whole(pieces_[found->piece])) continue;
      drop(found->piece);
      return true;
    }
    return false;
  }
  bool has_idle_segment() const {
    for (const IdleSet& idle : idle_) {
      for (const Idle& one : idle) {
        if (is_whole(pieces_[one.piece])) return true;
      }
    }
    return false;
  }

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
  Piece make(const Part& part) {
    if (unused_.empty()) {
      pieces_.push_back(part);
      return static_cast<Piece>(pieces_.size() - 1);
    }
    const Piece piece = unused_.back();
    unused_.pop_back();
    pieces_[piece] = part;
    return piece;
  }
  void set_idle(Piece piece) {
    Part& part = pieces_[piece];
    part.idle = true;
    idle_[part.kind].insert({part.bytes, part.address, piece});
  }
  void unset_idle(Piece piece) {
    Part& part = pieces_[piece];
    part.idle = false;
    idle_[part.kind].erase({part.bytes, part.address, piece});
  }
  /// Joins the piece with the next one. Both must be idle.
  void join_next(Piece piece) {
    const Piece next = pieces_[piece].after;
    pieces_[piece].bytes += pieces_[next].bytes;
    pieces_[piece].after = pieces_[next].after;
    if (pieces_[piece].after != kNone) pieces_[pieces_[piece].after].before = piece;
    unused_.push_back(next);
  }
  void drop(Piece piece) {
    unset_idle(piece);
    reserved_ -= whole_driver_pages(pieces_[piece].bytes);
    reserved_bytes_ -= pieces_[piece].bytes;
    unused_.push_back(piece);
  }

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
  explicit BfcArena(Extends extends) {
    if (extends == Extends::kSameAsRequested) {
      growths_ = {{.bound = 0}};
    } else {
      growths_ = {{kBound, kFirstRegion}, {kNoBound, kFirstRegion}};
    }
  }
  std::unique_ptr<ArenaModel> fresh() const override {
    const uint64_t bound = growths_.front().bound;
    return std::unique_ptr<ArenaModel>(
        new BfcArena(std::vector<Growth>{{bound, bound == 0 ? 0 : kFirstRegion}}));
  }
  uint64_t rounding() const override { return 256; }
  // Pieces of the stream are of kind 1.
  KindsOf kinds_of(const Request& request) const override {
    return request.on_stream ? KindsOf{3, 1, 0} : KindsOf{1, 0, 0};
  }
  bool splits(uint64_t piece_bytes, uint64_t bytes) const override {
    return piece_bytes >= 2 * bytes || piece_bytes - bytes >= kMostIdle;
  }
  uint64_t least_for_whole(uint64_t piece_bytes, bool new_segment) const override {
    if (new_segment && growths_.front().bound == 0) return piece_bytes;  // as large as the request
    const uint64_t most_idle = std::min(piece_bytes / 2, kMostIdle);
    return std::min(rounded(piece_bytes - most_idle + 1), piece_bytes);
  }
  bool may_take(uint64_t bytes, uint64_t segment_bytes) override {
    std::vector<Growth> right;
    for (Growth growth : growths_) {
      if (growth.region_for(bytes) == segment_bytes) right.push_back(growth);
    }
    if (right.empty()) return false;
    growths_ = std::move(right);
    return true;
  }
  bool has_own_segments() const override { return true; }
  uint64_t segment_for(uint64_t bytes) override { return growths_.front().region_for(bytes); }
  uint64_t after_refusal(uint64_t bytes, uint64_t segment_bytes, unsigned /*refusals*/) override {
    const auto less = rounded(static_cast<uint64_t>(static_cast<float>(segment_bytes) * 0.9F));
    return less < std::max(bytes, kLeastRegion) ? 0 : less;
  }
  std::string_view when_refused() const override {
    return "ONNX Runtime's arena, which asks for less when it is refused memory";
  }

 private:
  static constexpr uint64_t kFirstRegion = 1u << 20;
  static constexpr uint64_t kBound = 1u << 30, kNoBound = UINT64_MAX;
  static constexpr uint64_t kMostIdle = 128u << 20;  // idle rest of a piece that is given whole
  static constexpr uint64_t kLeastRegion = 8u << 10;
  /// How regions grow.
  struct Growth {
    /// The most that `next` becomes if no request needs more; 0: regions are as large as requests.
    uint64_t bound;
    uint64_t next = 0;  ///< size of the next region
    uint64_t region_for(uint64_t bytes) {
      if (bound == 0) return bytes;
      const bool fits = bytes <= next;
      while (next < bytes && next < kNoBound / 2) next *= 2;
      const uint64_t region = next;
      if (fits) next = next < bound / 2 ? next * 2 : bound;
      return region;
    }
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
  KindsOf kinds_of(const Request& request) const override {
    return is_small(request.bytes) ? KindsOf{2, 1, 1} : KindsOf{1, 0, 0};
  }
  bool splits(uint64_t piece_bytes, uint64_t bytes) const override {
    return piece_bytes - bytes >= (is_small(bytes) ? rounding() : kSmall + 1);
  }
  uint64_t least_for_whole(uint64_t piece_bytes, bool new_segment) const override {
    if (is_small(piece_bytes)) return piece_bytes;
    const uint64_t lowest = piece_bytes - std::min(piece_bytes, kSmall);
    return std::max(lowest, new_segment ? kLarge : kSmall + rounding());
  }
  bool may_take(uint64_t bytes, uint64_t segment_bytes) override {
    return segment_for(bytes) == segment_bytes;
  }
  uint64_t segment_for(uint64_t bytes) override {
    if (is_small(bytes)) return kSmallSegment;
    if (bytes < kLarge) return kLargeSegment;
    return whole_driver_pages(bytes);
  }
  uint64_t after_refusal(uint64_t /*bytes*/, uint64_t segment_bytes, unsigned refusals) override {
    if (refusals > 1) return 0;
    pieces().release_idle();
    return segment_bytes;
  }
  std::string_view when_refused() const override {
    return "PyTorch's pool, which gives back what is idle when it is refused memory";
  }

 private:
  static constexpr uint64_t kSmallSegment = 2u << 20, kLargeSegment = 20u << 20;
  static constexpr uint64_t kLarge = 10u << 20;  // from here on a segment is for one request
  static bool is_small(uint64_t bytes) { return bytes <= kSmall; }
};

// Finds the rules by which a log's arenas may have gone.

/// For each device of which only one allocator shares out memory: the rules that its arena may have
/// gone by. Several: by any of them; none: not known. PyTorch has one arena for each device, ONNX
/// Runtime one for each session that does not share its arena.
inline std::multimap<int32_t, std::unique_ptr<ArenaModel>> rules_of(const Replay& replay) {
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
