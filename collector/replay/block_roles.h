// What blocks of the driver's were used for: copies, fills and kernels, by the log's ROLE records.
// Of each device the blocks are kept that live, and those that were live at its peak so far.
//
//   alloc 5   ROLE 5 copied_in   [peak]   free 5    kept, until there is a higher peak
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "collector/log/definitions.h"
#include "collector/log/event.h"
#include "collector/replay/live_blocks.h"

namespace gpupeak::collector {

// What a log says of a block's uses (`run --last-use`), and how they stand to an instant: the last
// use before it, the first one after it, or both.
//
//   block     first use  [instant]  last use    then
//   weights   +0.2 s     +2.0 s     +3.0 s      used before and after
//   gradient  +0.6 s     +2.0 s     +0.6 s      last seen used 1.4 s before
//
// The time of a use is when the work was given to the device.

/// How a block was used around an instant.
enum class UseAtPeak : uint8_t {
  kOver,      ///< not seen used after it
  kEarly,     ///< not seen used before it
  kIdle,      ///< seen used before and after; the time between is its longest without use
  kNever,     ///< not seen used in its life
  kInUse,     ///< seen used before and after
  kNotKnown,  ///< the log does not say: the process did not end in order, or left it out
};

/// How a block's uses stand to an instant, and a time in ticks: since the last use (kOver), until
/// the first one (kEarly), or without use (kIdle).
struct UseStanding {
  UseAtPeak use = UseAtPeak::kNotKnown;
  uint64_t ticks = 0;
};

/// The uses of one block; times in ticks.
struct BlockUses {
  bool is_known = false;  ///< the log says something of its uses
  uint64_t count = 0, first = 0, last = 0;
  uint64_t idle_since = 0, idle = 0;

  /// Adds a record of the block's uses, which has this time.
  void add(const UsedEvent& used, uint64_t ticks);
  UseStanding at(uint64_t ticks) const;
};

class BlockRoles {
 public:
  struct Kernel {
    uint32_t name = 0, stack = 0;  ///< 0: not known
  };
  /// As RoleEvent has it.
  struct Role {
    uint64_t kernel, place, count;
  };
  struct Block {
    int32_t device = -1;
    GroupId group = kNoGroup;
    uint64_t bytes = 0, ticks = 0;       ///< when it was allocated
    std::optional<uint64_t> freed = {};  ///< ticks; none: it lives
    BlockUses uses = {};
    std::vector<Role> roles = {};
  };

  explicit BlockRoles(const Definitions& definitions);

  bool are_recorded() const { return are_recorded_; }
  /// Whether every launch was looked at.
  bool have_all_launches() const { return have_all_launches_; }

  void began(uint64_t id, Block block);
  /// `peak_ticks`: when its device's peak so far was.
  void ended(uint64_t id, uint64_t ticks, uint64_t peak_ticks);
  void define(const KernelEvent& kernel, uint32_t stack);
  void note(const RoleEvent& role);
  void note(const UsedEvent& used, uint64_t ticks);

  Kernel kernel(uint64_t number) const;
  /// Calls `visit(block)` for the device's blocks that were live at its peak.
  template <typename Visit>
  void visit_at_peak(int32_t device, uint64_t peak_ticks, Visit visit) const {
    for (const auto& [id, block] : live_) {
      if (block.device == device && block.ticks <= peak_ticks) visit(block);
    }
    const auto ended = ended_.find(device);
    if (ended == ended_.end() || ended->second.peak_ticks != peak_ticks) return;
    for (const Block& block : ended->second.blocks) visit(block);
  }

 private:
  struct Ended {
    uint64_t peak_ticks = 0;
    std::vector<Block> blocks;  ///< that were live at the peak of this time
  };

  const bool are_recorded_, have_all_launches_;
  std::unordered_map<uint64_t, Block> live_;
  std::unordered_map<uint64_t, Kernel> kernels_;
  std::map<int32_t, Ended> ended_;
  uint64_t last_ended_ = 0;  ///< the block `last_`, which lives on if its free failed
  Block last_;
};

}  // namespace gpupeak::collector
