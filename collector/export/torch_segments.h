// One device's memory as PyTorch's snapshots have it: segments, which the driver handed out, the
// blocks in them, and the events that led there. Memory of an arena has the arena's blocks,
// wherever they begin and end. All other memory is a segment with one block, since whoever took it
// uses it. Created memory (cuMemCreate) that an arena shares out is a segment where it is mapped.
// torch_snapshot.cc writes all this.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "collector/replay/replay_observer.h"

namespace gpupeak::collector {

/// An event, by PyTorch's names.
struct TorchEvent {
  std::string_view action;  ///< "segment_alloc", "alloc" …
  uint64_t address = 0;     ///< for "oom": the bytes that the driver has free
  uint64_t bytes = 0;
  uint32_t stack = 0;
};

struct TorchSegment {
  struct Block {
    uint64_t address = 0, bytes = 0;
    uint32_t stack = 0;
    bool active = false;
  };
  uint64_t address = 0, bytes = 0;
  uint32_t stack = 0;
  bool expandable = false;
  std::vector<Block> blocks;  ///< by address; they fill the segment
  uint64_t active_bytes() const;
};

class TorchSegments {
 public:
  /// `shared_out`: ids of the driver's blocks that arenas share out.
  explicit TorchSegments(const std::unordered_set<uint64_t>& shared_out)
      : shared_out_(shared_out) {}
  virtual ~TorchSegments() = default;

  // Events of the driver's blocks.
  void allocated(const DeviceBlock& block);
  void freed(const DeviceBlock& block);
  void mapped(const DeviceMappedEvent& mapped);
  void unmapped(const DeviceUnmappedEvent& unmapped);
  // Events of arenas' blocks. Blocks that lie in no segment are ignored.
  void given(const ArenaAllocEvent& given, uint32_t stack);
  void taken(const ArenaFreeEvent& taken);
  /// The arena is gone, or all of its blocks are free.
  void emptied(uint64_t arena);
  void refused(const ArenaFailedEvent& refused, uint32_t stack);

  /// The segments at this moment, by address. Mapped pieces without a gap between them are one
  /// segment.
  std::vector<TorchSegment> segments() const;

 protected:
  virtual void on_event(const TorchEvent& event) = 0;

 private:
  struct Piece {
    uint64_t id = 0, bytes = 0;
    uint32_t stack = 0;
    bool shared = false;
    bool mapped = false;
  };
  struct Block {
    uint64_t arena = 0, bytes = 0;
    uint32_t stack = 0;
  };
  /// A block of created memory (cuMemCreate) that is not mapped now.
  struct Created {
    uint64_t bytes = 0;
    uint32_t stack = 0;
  };
  using Pieces = std::map<uint64_t, Piece>;
  using Blocks = std::map<uint64_t, Block>;

  uint64_t free_address(uint64_t wanted, uint64_t id) const;
  void add(uint64_t address, const Piece& piece, std::string_view action);
  Pieces::iterator remove(Pieces::iterator piece);
  Blocks::iterator take(Blocks::iterator block);
  /// The piece of an arena that contains the address; end(): none does.
  Pieces::const_iterator around(uint64_t address) const;

  const std::unordered_set<uint64_t>& shared_out_;
  Pieces pieces_;                         // by address
  std::map<uint64_t, uint64_t> places_;   // addresses by the driver's id
  std::map<uint64_t, Created> unmapped_;  // by the driver's id
  Blocks blocks_;                         // blocks of arenas, by address
};

}  // namespace gpupeak::collector
