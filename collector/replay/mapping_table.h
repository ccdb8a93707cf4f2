// The process's mappings as intervals, and what each change of them means for the sums. Unmapping a
// part of a mapping splits it; mapping over it replaces it; taking all access to anonymous memory
// away leaves only addresses, which do not count. Replay keeps one. Each operation gives the parts
// of one step for PeakFinder.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "collector/replay/peak_finder.h"

namespace gpupeak::collector {

class MappingTable {
 public:
  using Changes = std::vector<PeakFinder::Change>;
  /// The group of memory of `kind` that the current call maps.
  using GroupOf = std::function<GroupId(uint8_t kind)>;

  /// Maps a range. Sizes are rounded up to 4 KiB. Each operation appends to `changes`.
  void map(uint64_t address, uint64_t bytes, uint32_t prot, uint8_t kind, GroupId group,
           Changes& changes);
  void unmap(uint64_t address, uint64_t bytes, Changes& changes);
  /// The same as the slot's last call that takes mappings away, which take_back() undoes.
  void unmap(uint32_t slot, uint64_t address, uint64_t bytes, Changes& changes);
  /// Changes the protection of a range. False: nothing was done, since a damaged log protects very
  /// many mappings again and again (kMostMappings).
  bool protect(uint64_t address, uint64_t bytes, uint32_t prot, Changes& changes);
  /// From here to the slot's remap() or take_back(), what lies there still counts but has no
  /// addresses: another mapping may be given them before the move is logged.
  void remap_begins(uint32_t slot, uint64_t address, uint64_t bytes, Changes& changes);
  /// The kernel refused what the slot did last, an unmap() or remap_begins() of that range: what
  /// lay there lies there again.
  void take_back(uint32_t slot, uint64_t address, uint64_t bytes, Changes& changes);
  struct Move {
    uint64_t old_address, old_bytes, new_address, new_bytes;
  };
  /// Moves a range. The new range has the kind and protection of the first mapping of the old one.
  /// What was never seen mapped stays unseen. Without remap_begins(), as in older logs, the old
  /// range is what lies there now. `old_bytes` 0: it stays.
  void remap(uint32_t slot, const Move& move, const GroupOf& group_of, Changes& changes);

  size_t size() const { return mappings_.size(); }
  /// Anonymous mappings that may not be touched any more. Their pages stay until they are unmapped.
  uint64_t resting_bytes() const { return resting_bytes_; }

 private:
  struct Mapping {
    uint64_t end;
    uint32_t prot;
    GroupId group;
    uint8_t kind;
    bool rests = false;  ///< it could be touched before
    bool operator==(const Mapping&) const = default;
  };
  using Map = std::map<uint64_t, Mapping>;  // by start; they never overlap
  /// How many mappings each call may protect, and how many more all calls together may: that takes
  /// a second or two. Real programs protect what they have mapped in one piece.
  static constexpr uint64_t kFewMappings = 64, kMostMappings = UINT64_C(1) << 25;

  void count(uint64_t begin, const Mapping& mapping, int16_t sign, bool allocates,
             Changes& changes);
  void split_at(uint64_t address, Changes& changes);
  template <typename Leave>
  void remove(uint64_t address, uint64_t bytes, Changes& changes, Leave leave);
  void join_with_previous(Map::iterator it, Changes& changes);

  Map mappings_;
  /// What a slot has taken away by its last call.
  struct Taken {
    uint64_t address = 0, bytes = 0;
    bool moves = false;  ///< by remap_begins(): it still counts
    std::vector<Map::value_type> pieces;
  };
  void put_back(const Taken& taken, Changes& changes);
  void take(uint32_t slot, uint64_t address, uint64_t bytes, bool moves, Changes& changes);

  std::map<uint32_t, Taken> taken_;  // by slot
  uint64_t resting_bytes_ = 0;
  uint64_t protected_ = 0;  // mappings protected so far, beyond kFewMappings for each call
};

}  // namespace gpupeak::collector
