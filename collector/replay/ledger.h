// Takes apart the driver's own figure of a device's memory in use. It goes through the readings of
// a log (preload/track/ledger.h takes them) beside the tracked memory. A reading that ends a
// bracket shows by how much the figure moved since the reading before. What tracked memory moved by
// is subtracted, and the rest goes to the bracket's cause. What no cause, kind or rounding explains
// is `unexplained`, so that the rows of a snapshot always add up to the reading, to the byte.
// Replay calls it; the summary reads it. In MiB:
//
//   reading at the end of    used  tracked   moved by   of it tracked   the rest goes to
//   (the first)                 4        0                              start
//   cuCtxCreate               520        0       +516               0   context +516
//   cuMemAlloc of 100         620      100       +100            +100   –
//   a first launch            640      100        +20               0   code +20
//   snapshot: 4 start + 516 context + 20 code + 100 tracked = 640 used
//
// Where NVML lists processes, `used` is this process's own entry, and what others do moves nothing.
// A reading without the list then takes the card's figure, less what the others had at the last
// list. The next list shows whether they had it all the time. If not, what such readings found is
// taken back, and no later one is used.
//
// No cause can give back what nobody took. Where the figure falls by more, another process has
// moved, and rows that are differences are not known: they become one.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "collector/log/event.h"
#include "gpupeak/log_format.h"

namespace gpupeak::collector {

/// Tracked bytes of one device.
struct TrackedBytes {
  /// By kind, as they were asked for; only kinds that count into the device's sum.
  std::array<uint64_t, GPUPEAK_KIND_LIMIT> of{};
  uint64_t pool_reserved = 0;
  uint64_t host = 0;  ///< the process's host memory, if the device's memory is the host's
  /// The process was attached to: it may give back what no call was seen to take.
  bool had_more = false;
  /// Whether calls show all that this process takes and gives back.
  bool is_all_seen() const { return host == 0 && !had_more; }
  uint64_t total() const { return std::accumulate(of.begin(), of.end(), uint64_t{0}); }
  /// What the driver has taken for it, with so many bytes of pages for linear memory.
  uint64_t physical(uint64_t linear_pages) const {
    return total() - of[GPUPEAK_KIND_LINEAR] - of[GPUPEAK_KIND_POOL] + linear_pages + pool_reserved;
  }
};

/// The pages of linear or managed memory. Blocks of less than 2 MiB share pages of 2 MiB, larger
/// ones have whole pages of their own (docs/driver-behaviour.md). So the pages touched are the
/// memory that the driver takes.
class PageCount {
 public:
  /// A block comes (`is_added`) or goes.
  void count(uint64_t address, uint64_t bytes, bool is_added);
  uint64_t bytes() const { return (pages_.size() + whole_pages_) << kPageShift; }

 private:
  static constexpr unsigned kPageShift = 21;
  static constexpr uint64_t kLargestSmallBlock = 2 << 20;
  std::unordered_map<uint64_t, uint32_t> pages_;  ///< with small blocks in them
  uint64_t whole_pages_ = 0;
};

/// The parts of one reading: they add up to `used`.
struct LedgerSnapshot {
  uint64_t ticks = 0;
  uint64_t used = 0;       ///< of this process if `of_process`, else of all
  uint64_t card_used = 0;  ///< of all processes
  bool of_process = false;
  std::optional<uint64_t> others = {};                      ///< of all other processes
  std::vector<DriverReadingEvent::Process> processes = {};  ///< the largest of these
  TrackedBytes tracked;
  int64_t linear_rounding = 0;
  std::optional<uint64_t> start;  ///< before the first context; nullopt: not known, see `context`
  /// Others moved, nobody knows by how much: all that is not tracked is in `context`.
  bool others_moved = false;
  int64_t external = 0;  ///< in older logs: by how much other processes' memory has changed since
  std::array<int64_t, GPUPEAK_LEDGER_LIMIT> causes{};
  int64_t host = 0;  ///< by how much the process's host memory has changed what is in use
  int64_t unexplained = 0;
  bool by_failed_call = false;  ///< the driver's free bytes at an allocation that failed

  /// Makes the card's figure one row beside tracked memory.
  void join_rows();
};

class DeviceLedger {
 public:
  struct Point {
    uint64_t ticks;
    uint64_t used;
  };
  /// cause, name (string id), api (string id), stack
  using ItemKey = std::tuple<uint8_t, uint32_t, uint32_t, uint32_t>;
  struct Item {
    int64_t bytes = 0;
    uint64_t count = 0;
  };

  void context_created() { had_context_ = true; }
  void on_reading(const DriverReadingEvent& reading, const TrackedBytes& tracked, uint64_t ticks);
  /// Takes apart what the driver said was in use when an allocation failed, as it does a reading.
  /// It changes no causes: a bracket may be open, and what moves then belongs to that. nullopt if
  /// there are no readings.
  std::optional<LedgerSnapshot> on_failed_allocation(uint64_t used, const TrackedBytes& tracked,
                                                     uint64_t ticks);

  /// What of a reading the rows add up to: this process's bytes, if NVML tells, else the card's.
  uint64_t figure(const DriverReadingEvent& reading) const;

  PageCount& pages() { return pages_; }
  /// Pages of managed memory, as if all of it were on the device. It cannot take more than that.
  PageCount& managed_pages() { return managed_pages_; }
  /// The certain reading at which most was tracked: the nearest one to the peak in bytes.
  const std::optional<LedgerSnapshot>& at_peak() const { return rows_.at_peak; }
  const std::optional<LedgerSnapshot>& last() const { return rows_.last; }
  /// The largest reading.
  const std::optional<Point>& highest() const { return highest_; }
  std::optional<uint64_t> own_peak() const { return own_peak_; }
  std::optional<uint64_t> reserved() const { return reserved_; }
  std::optional<uint64_t> others_at_start() const { return others_at_start_; }
  bool by_nvml() const { return by_nvml_; }
  uint64_t overlaps() const { return overlaps_; }
  uint64_t uncertain() const { return uncertain_; }
  const std::map<ItemKey, Item>& items() const { return rows_.items; }
  /// The readings over time. Of many, each few in a row are one point, their highest.
  const std::vector<Point>& curve() const { return curve_; }

 private:
  static constexpr size_t kMostPoints = 4096;

  int64_t physical(const TrackedBytes& tracked) const {
    return static_cast<int64_t>(tracked.physical(pages_.bytes()));
  }
  /// In older logs: what other processes took while this one made its first context. At that
  /// reading `others` is known for the first time, so this has to be subtracted from it.
  uint64_t joined_with(const DriverReadingEvent& reading) const;
  /// The first reading with this process's own figure.
  void begin_own(const DriverReadingEvent& reading);
  /// Whether a fall among readings without the own figure shows that another process has gone: what
  /// went is more than this cause had when the list last told.
  bool is_of_others(uint8_t cause, int64_t moved) const;
  /// What was taken from readings without the own figure is left to the next reading that has it.
  void undo_estimates();
  /// A reading with the own figure: were those without it right, since the one before?
  void check_estimates(const DriverReadingEvent& reading);
  /// The figure fell by more than we can have given back.
  void others_moved();
  void restart_curve();
  void add_to_curve(Point point);
  void attribute(const DriverReadingEvent& reading, const TrackedBytes& tracked, int64_t moved);
  LedgerSnapshot snapshot(uint64_t used, const TrackedBytes& tracked, uint64_t ticks) const;
  void keep_nearest(const LedgerSnapshot& now);

  PageCount pages_, managed_pages_;
  bool had_context_ = false;
  bool by_nvml_ = false;
  bool any_ = false;
  bool own_mode_ = false;
  uint64_t beside_ = 0;  ///< the card's figure less the own one, at the last list
  bool beside_moves_ = false;
  bool others_moved_ = false;    ///< …, and nobody knows by how much
  bool is_entry_wrong_ = false;  ///< what the list has of this process is another's
  std::optional<uint64_t> others_;
  std::vector<DriverReadingEvent::Process> processes_;
  struct Rows {
    std::array<int64_t, GPUPEAK_LEDGER_LIMIT> causes{};
    std::map<ItemKey, Item> items;
    std::optional<LedgerSnapshot> at_peak, last;
    int64_t used = 0, physical = 0;  ///< at the last certain reading
  } rows_;
  /// As they were before the first reading without a list, since the last one with it.
  std::optional<Rows> before_estimates_;
  ItemKey estimated_item_{};  ///< the last cause that such a reading had
  std::optional<uint64_t> start_;
  int64_t base_ = 0;  ///< what was in use beyond tracked memory at the first reading
  std::optional<uint64_t> others_at_start_;
  int64_t external_ = 0;
  int64_t host_at_start_ = 0, host_ = 0;
  std::optional<Point> highest_;
  std::optional<uint64_t> own_peak_, reserved_;
  uint64_t overlaps_ = 0, uncertain_ = 0;
  uint8_t pending_cause_ = GPUPEAK_LEDGER_NONE;  ///< the cause of a reading that was not used
  ItemKey pending_item_{};
  std::vector<Point> curve_;
  size_t points_merged_ = 1;  ///< how many readings a point of the curve stands for
  size_t in_last_point_ = 0;
};

}  // namespace gpupeak::collector
