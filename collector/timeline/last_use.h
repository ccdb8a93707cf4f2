// When the blocks that were live at a device's peak were used: for the last time before it, for the
// first time after it, both, or never as far as was seen. It needs a log with uses (`run
// --last-use`). Blocks of arenas count, and not the driver's memory in which they lie; what is idle
// in arenas is apart.
//
//   block     allocated  first use  [peak]  last use  freed      at the peak
//   weights   +0.1 s     +0.2 s     +2.0 s  +3.0 s    +4.0 s     used before and after
//   gradient  +0.5 s     +0.6 s     +2.0 s  …         +4.0 s     last seen used 1.4 s before
//
// The time of a use is when the work was given to the device. And how long before a moment what was
// live then was allocated, of any log and of the host's memory too.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/analyze/profile.h"
#include "collector/log/event.h"
#include "collector/timeline/moment.h"

namespace gpupeak::collector {

struct LastUse {
  struct Row {
    UseAtPeak use = UseAtPeak::kNotKnown;
    GroupId group = kNoGroup;                 ///< for blocks of the driver
    HolderId holder = kNoHolder;              ///< for blocks of an arena
    uint64_t bytes = 0, blocks = 0;           ///< at the peak
    int64_t shortest_ns = 0, longest_ns = 0;  ///< over its blocks; kIdle: of the time without use
  };
  ScopeId scope{};
  uint64_t bytes = 0;  ///< the peak
  int64_t time_ns = 0;
  std::vector<Row> rows;    ///< in no order; with idle_bytes they add up to the peak
  uint64_t idle_bytes = 0;  ///< in arenas
};

struct LastUses {
  std::vector<LastUse> devices;
  std::optional<UsesEndEvent> end;  ///< none: the process did not come to its end
};

/// One for each device that had a peak. Replays the log once more. Throws UsageError if the log has
/// no uses, std::logic_error if rows do not add up.
LastUses last_uses(const Profile& profile, const Progress& progress = {});

/// What a sum had at a moment, by when it was allocated. Long-lived memory is told from
/// short-lived.
struct Ages {
  struct Row {
    std::string text;  ///< "4 to 7 steps ago"
    uint64_t bytes = 0, blocks = 0;
    int64_t oldest_ns = 0;  ///< before the moment
    std::string site;       ///< the call that has most of it
    uint64_t site_bytes = 0;
  };
  /// Blocks that are far older than any that the same call had freed before.
  struct Odd {
    std::string site;
    uint64_t bytes = 0, blocks = 0;
    int64_t oldest_ns = 0;
    uint64_t freed = 0;      ///< others of this call …
    int64_t longest_ns = 0;  ///< … that lived so long at most
  };
  ScopeId scope{};
  std::string step;          ///< the phase that is a step, or "step"; empty: rows are of time
  std::vector<Row> rows;     ///< the youngest first
  uint64_t other_bytes = 0;  ///< mappings, which have no age; what is idle in arenas
  std::vector<Odd> odd;      ///< the largest first
};

/// Of each sum of a device or of the host, at its moment. A step is an instance of the phase that
/// grows or comes again, else what a call keeps that grows evenly. Replays the log once more.
std::vector<Ages> ages_of(Profile& profile, const std::vector<Held>& held,
                          const Progress& progress = {});

/// How much of a device's peak a site had with one kind of use.
struct UseRow {
  UseAtPeak use{};
  std::string title, kind;
  uint64_t bytes = 0, blocks = 0;
  int64_t shortest_ns = 0, longest_ns = 0;
};
/// Largest first. With idle_bytes they add up to the peak.
std::vector<UseRow> use_rows(Profile& profile, const LastUse& of);
/// The bytes with this use.
uint64_t bytes_of(const LastUse& of, UseAtPeak use);

// The uses of arenas' blocks, for views that show some blocks at some instants. A log has a block's
// uses later than such an instant, mostly at the block's end, when another block may have its
// address. So each block gets a number, and only uses that will be asked for are kept.
class ArenaUses {
 public:
  static constexpr uint64_t kNone = 0;
  /// `on`: whether the log has uses. If not, this does nothing.
  explicit ArenaUses(bool on) : on_(on) {}

  bool on() const { return on_; }
  /// `arena`: its number in the replay.
  void on_block(const ArenaBlockChange& change, size_t arena) {
    if (!on_) return;
    arena_of_[change.arena] = arena;
    const Place place{arena, change.address};
    if (change.in_use) {
      const auto [live, fresh] =
          live_.try_emplace(place);  // if it is there already, its free failed
      if (fresh) live->second.block = ++last_block_;
      live->second.bytes = change.bytes;
      return;
    }
    const auto ended = live_.find(place);
    if (ended == live_.end()) return;
    if (ended->second.is_kept) {
      ended_[ended->second.block] = ended->second.uses;
      kept_live_.erase(ended->second.block);
    }
    live_.erase(ended);
  }
  void on_used(const UsedEvent& used, uint64_t ticks) {
    const auto arena = arena_of_.find(used.arena);
    if (arena == arena_of_.end()) return;
    const auto live = live_.find({arena->second, used.block});
    if (live != live_.end()) live->second.uses.add(used, ticks);
  }

  /// The number of the block that `address` is in now; kNone: none is followed. A use of an address
  /// within a block is the block's.
  uint64_t block_at(size_t arena, uint64_t address) const {
    const auto live = live_at(arena, address);
    return live == live_.end() ? kNone : live->second.block;
  }
  /// Keeps the uses of the block at this address: they will be asked for.
  void keep(size_t arena, uint64_t address) {
    const auto there = live_at(arena, address);
    if (there == live_.end()) return;
    Live& live = live_.at(there->first);
    live.is_kept = true;
    kept_live_[live.block] = there->first;
  }
  /// The uses of a block that was kept. Call it when the log has ended.
  BlockUses of(uint64_t block) const {
    if (const auto ended = ended_.find(block); ended != ended_.end()) return ended->second;
    const auto live = kept_live_.find(block);
    return live == kept_live_.end() ? BlockUses{} : live_.at(live->second).uses;
  }

 private:
  using Place = std::pair<size_t, uint64_t>;  ///< an arena and an address
  struct Live {
    uint64_t block = kNone, bytes = 0;
    bool is_kept = false;
    BlockUses uses;
  };

  std::map<Place, Live>::const_iterator live_at(size_t arena, uint64_t address) const {
    auto live = live_.upper_bound({arena, address});
    if (live == live_.begin()) return live_.end();
    const auto& [place, block] = *--live;
    const bool is_there =
        place.first == arena && (address == place.second || address - place.second < block.bytes);
    return is_there ? live : live_.end();
  }

  const bool on_;
  uint64_t last_block_ = kNone;
  std::map<uint64_t, size_t> arena_of_;  // by the log's number
  std::map<Place, Live> live_;
  std::unordered_map<uint64_t, BlockUses> ended_;
  std::unordered_map<uint64_t, Place> kept_live_;
};

// The words for when a block was used, at an instant: one source for all views and the page.

struct UseName {
  UseAtPeak use;
  std::string_view name;  ///< in JSON
  std::string_view text;  ///< for the peak
  std::string_view when;  ///< for blocks at an instant; {}: how long
};
/// In the order in which they are shown.
inline constexpr std::array<UseName, 6> kUses{{
    {UseAtPeak::kOver, "over", "not seen used after the peak", "last {} before"},
    {UseAtPeak::kEarly, "early", "not seen used before it", "first {} after"},
    {UseAtPeak::kNever, "never", "not seen used at all", "not seen"},
    {UseAtPeak::kIdle, "idle", "longest without use around it", "none for {}"},
    {UseAtPeak::kInUse, "in_use", "used before and after", "in use"},
    {UseAtPeak::kNotKnown, "not_known", "not known", "not known"},
}};
/// Stands below a table with a column of uses.
inline constexpr std::string_view kUsedNote =
    "used: of most of a site's bytes, when they were last seen used before then, or first after it";

const UseName& use_name(UseAtPeak use);
/// For some blocks at an instant: "last 1.2 s to 3.4 s before".
std::string when_used(UseAtPeak use, int64_t shortest_ns, int64_t longest_ns);
/// What a use is, and what the log does not have of them.
std::vector<std::string> use_notes(const LastUses& uses);
/// Whether the block could have been elsewhere at that instant.
bool may_be_moved(UseAtPeak use);
/// Whether UseName::when has a time in it.
inline bool has_time(UseAtPeak use) {
  return may_be_moved(use) && use != UseAtPeak::kNever;
}

}  // namespace gpupeak::collector
