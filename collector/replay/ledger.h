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
// Where no reading was taken at the peak of tracked memory, the last one before it is carried on to
// it: what tracked memory has moved since is added.
//
// Where NVML lists processes, `used` is this process's own entry, and what others do moves nothing.
// A reading without the list then takes the card's figure, less what the others had at the last
// list. The next list shows whether they had it all the time. If not, what such readings found is
// taken back, and no later one is used.
//
// No cause can give back what nobody took. Where the figure falls by more, another process has
// moved, and rows that are differences are not known: they become one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/log/event.h"
#include "collector/log/kinds.h"
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
  void count(uint64_t address, uint64_t bytes, bool is_added) {
    if (bytes == 0) return;
    const uint64_t first = address >> kPageShift, last = (address + bytes - 1) >> kPageShift;
    const uint64_t pages = last - first + 1;
    if (bytes > kLargestSmallBlock) {
      whole_pages_ += is_added ? pages : 0 - std::min(whole_pages_, pages);
      return;
    }
    for (uint64_t page = first; page <= last; ++page) {
      if (is_added) {
        ++pages_[page];
      } else if (const auto entry = pages_.find(page);
                 entry != pages_.end() && --entry->second == 0) {
        pages_.erase(entry);
      }
    }
  }
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
  std::array<int64_t, kSeveralCauses + 1> causes{};
  int64_t host = 0;  ///< by how much the process's host memory has changed what is in use
  int64_t unexplained = 0;
  bool by_failed_call = false;  ///< the driver's free bytes at an allocation that failed
  /// When it was read, if it is carried on from a reading before `ticks`.
  std::optional<uint64_t> read_ticks = {};

  /// Makes the card's figure one row beside tracked memory.
  void join_rows() {
    int64_t rest = static_cast<int64_t>(start.value_or(0) + card_used - used) + host + unexplained;
    for (const int64_t bytes : causes) rest += bytes;
    causes = {};
    causes[GPUPEAK_LEDGER_CONTEXT] = rest;
    host = unexplained = 0;
    start.reset();
    used = card_used;
    of_process = false;
    others.reset();
    processes.clear();
    others_moved = true;
  }
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
  void on_reading(const DriverReadingEvent& reading, const TrackedBytes& tracked, uint64_t ticks) {
    const bool is_listed = reading.has_list && reading.own && !is_entry_wrong_;
    if (is_listed && !own_mode_ && !reading.uncertain) begin_own(reading);
    if (reading.others && !is_entry_wrong_) {
      if (!others_at_start_) others_at_start_ = *reading.others;
      if (reading.has_list) others_ = reading.others;
      // If nothing has moved since the last reading, the list is not logged again.
      if (!reading.processes.empty() || *reading.others == 0) processes_ = reading.processes;
    }
    if (reading.reserved) reserved_ = reading.reserved;
    if (reading.own && !is_entry_wrong_) own_peak_ = std::max(own_peak_.value_or(0), *reading.own);
    by_nvml_ = reading.source == GPUPEAK_READING_NVML;
    overlaps_ += reading.overlaps;

    if (!highest_ || reading.used > highest_->used) highest_ = Point{ticks, reading.used};
    const ItemKey key{reading.cause, reading.name, reading.api, reading.stack};
    const bool is_estimate = own_mode_ && !is_listed;
    const uint64_t used = figure(reading);
    const int64_t now_physical = physical(tracked);
    const int64_t untracked = static_cast<int64_t>(used) - now_physical;
    const auto moved = [&] { return untracked - (rows_.used - rows_.physical); };
    if ((is_estimate || before_estimates_) && !reading.uncertain &&
        is_of_others(reading.cause, moved()))
      undo_estimates();
    if (any_ && (reading.uncertain || (is_estimate && beside_moves_))) {
      // The next reading that is used shows what moved.
      uncertain_ += reading.uncertain;
      pending_.add(key);
      if (!is_estimate) add_to_curve({ticks, used});
      if (!reading.uncertain && can_carry_on(tracked)) rows_.last = carried_on_to(tracked, ticks);
      return;
    }
    if (is_estimate) {
      if (!before_estimates_) {
        before_estimates_ = rows_;
        estimated_ = {};
      }
      estimated_.add(key);
    } else if (own_mode_) {
      check_estimates(reading);
    }
    if (!any_) {
      any_ = true;
      // Before the first context the reading is what was there before us. Later it has the context
      // in it.
      if (!had_context_ && reading.cause == GPUPEAK_LEDGER_NONE) start_ = used;
      base_ = untracked;
      host_at_start_ = static_cast<int64_t>(tracked.host);
    } else {
      attribute(reading, tracked, moved());
    }
    LedgerSnapshot now = snapshot(used, tracked, ticks);
    // Where the host's memory is the device's, what others have of that moves the figure, too. Of
    // managed memory the driver takes more than there is.
    const bool others_took =
        reading.has_list && !own_mode_ && managed_pages_.bytes() == 0 && now.unexplained > kForeign;
    if ((now.unexplained < -kForeign || others_took) && tracked.is_all_seen()) {
      others_moved();
      now = snapshot(figure(reading), tracked, ticks);
    }
    rows_.used = static_cast<int64_t>(now.used);
    rows_.physical = now_physical;
    now.card_used = reading.used;
    // Without the own figure another process may have had it.
    if (!is_estimate) add_to_curve({ticks, now.used});
    keep_nearest(now);
    rows_.last = now;
  }
  /// Takes apart what the driver said was in use when an allocation failed, as it does a reading.
  /// It changes no causes: a bracket may be open, and what moves then belongs to that. nullopt if
  /// there are no readings.
  std::optional<LedgerSnapshot> on_failed_allocation(uint64_t used, const TrackedBytes& tracked,
                                                     uint64_t ticks) {
    if (!any_) return std::nullopt;
    if (used > highest_->used) highest_ = Point{ticks, used};
    // The driver then says how much is free, for whomever. Of the rest this process has what it had
    // at the last reading and what was handed out since; others have more or less.
    const uint64_t own = own_mode_ ? carried_on(tracked) : used;
    add_to_curve({ticks, own});
    LedgerSnapshot now = snapshot(own, tracked, ticks);
    now.card_used = used;
    if (own_mode_ && others_) {
      const int64_t beside = static_cast<int64_t>(used) - static_cast<int64_t>(own);
      now.others = static_cast<uint64_t>(std::max<int64_t>(
          0, static_cast<int64_t>(*others_) + beside - static_cast<int64_t>(beside_)));
    }
    now.by_failed_call = true;
    keep_nearest(now);
    return now;
  }

  /// Tracked memory has moved, and may be at its peak.
  void on_tracked(const TrackedBytes& tracked, uint64_t ticks) {
    if (!can_carry_on(tracked)) return;
    if (rows_.at_top && rows_.at_top->tracked.total() > tracked.total()) return;
    rows_.at_top = carried_on_to(tracked, ticks);
  }

  /// What of a reading the rows add up to: this process's bytes, if NVML tells, else the card's.
  uint64_t figure(const DriverReadingEvent& reading) const {
    if (!own_mode_) return reading.used;
    return reading.own.value_or(reading.used - std::min(reading.used, beside_));
  }

  PageCount& pages() { return pages_; }
  /// Pages of managed memory, as if all of it were on the device. It cannot take more than that.
  PageCount& managed_pages() { return managed_pages_; }
  /// At the peak of tracked memory, or of the certain reading at which most was tracked.
  const std::optional<LedgerSnapshot>& at_peak() const {
    const auto tracked = [](const auto& one) { return one ? one->tracked.total() : 0; };
    return tracked(rows_.at_top) > tracked(rows_.at_peak) ? rows_.at_top : rows_.at_peak;
  }
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
  static constexpr int64_t kPage = 2 << 20;
  /// The driver's figure and ours may be apart by so much without another process.
  static constexpr int64_t kForeign = 16 << 20;

  int64_t physical(const TrackedBytes& tracked) const {
    return static_cast<int64_t>(tracked.physical(pages_.bytes()));
  }
  /// What the rows add up to if only tracked memory has moved since the last certain reading.
  uint64_t carried_on(const TrackedBytes& tracked) const {
    return static_cast<uint64_t>(
        std::max<int64_t>(0, rows_.used + physical(tracked) - rows_.physical));
  }
  /// As long as the driver's pools are not known to have what they have handed out, the driver's
  /// figure cannot be reckoned.
  bool can_carry_on(const TrackedBytes& tracked) const {
    return rows_.last && tracked.pool_reserved >= tracked.of[GPUPEAK_KIND_POOL];
  }
  LedgerSnapshot carried_on_to(const TrackedBytes& tracked, uint64_t ticks) const {
    LedgerSnapshot now = snapshot(carried_on(tracked), tracked, ticks);
    now.card_used = rows_.last->card_used + (now.used - rows_.last->used);
    now.read_ticks = rows_.last->read_ticks.value_or(rows_.last->ticks);
    return now;
  }
  /// The first reading with this process's own figure.
  void begin_own(const DriverReadingEvent& reading) {
    own_mode_ = true;
    others_moved_ = false;
    beside_ = reading.used - std::min(reading.used, *reading.own);
    restart_curve();
    rows_ = {};
    base_ = host_ = 0;
    pending_.causes = 0;
    // Before its first context the process had nothing. If its entry is known only later, what it
    // has beyond tracked memory by then is one row.
    const uint8_t cause = reading.cause != GPUPEAK_LEDGER_NONE ? reading.cause : pending_.cause();
    any_ = start_ && cause == GPUPEAK_LEDGER_CONTEXT;
    start_.reset();
    if (any_) start_ = 0;
  }
  /// Whether a move among readings without the own figure shows that another process has moved: one
  /// that no call made, or a fall by more than this cause had when the list last told.
  bool is_of_others(uint8_t cause, int64_t moved) const {
    if (cause == GPUPEAK_LEDGER_NONE) return std::llabs(moved) > kForeign;
    const Rows& sure = before_estimates_ ? *before_estimates_ : rows_;
    return moved < -(std::max<int64_t>(sure.causes[cause], 0) + kPage);
  }
  /// What was taken from readings without the own figure is left to the next reading that has it.
  void undo_estimates() {
    if (before_estimates_) {
      pending_.last = estimated_.last;
      pending_.causes |= estimated_.causes;
      rows_ = std::move(*before_estimates_);
    }
    before_estimates_.reset();
    beside_moves_ = true;
  }
  /// A reading with the own figure: were those without it right, since the one before?
  void check_estimates(const DriverReadingEvent& reading) {
    const uint64_t beside = reading.used - std::min(reading.used, *reading.own);
    if (std::llabs(static_cast<int64_t>(beside - beside_)) > kPage) undo_estimates();
    before_estimates_.reset();
    beside_ = beside;
  }
  /// The figure fell by more than we can have given back.
  void others_moved() {
    others_moved_ = true;
    for (auto* at : {&rows_.at_peak, &rows_.at_top}) {
      if (*at) (*at)->join_rows();
    }
    if (!own_mode_) return;
    // The entry of the list that was thought to be ours is another's.
    is_entry_wrong_ = true;
    own_mode_ = false;
    own_peak_.reset();
    others_.reset();
    processes_.clear();
    before_estimates_.reset();
    restart_curve();
  }
  void restart_curve() {
    curve_.clear();
    in_last_point_ = 0;
    points_merged_ = 1;
  }
  void add_to_curve(Point point) {
    if (in_last_point_ > 0 && in_last_point_ < points_merged_) {
      if (point.used > curve_.back().used) curve_.back() = point;
      ++in_last_point_;
      return;
    }
    if (curve_.size() == kMostPoints) {
      for (size_t i = 0; i < kMostPoints / 2; ++i) {
        const Point &a = curve_[2 * i], &b = curve_[2 * i + 1];
        curve_[i] = a.used >= b.used ? a : b;
      }
      curve_.resize(kMostPoints / 2);
      points_merged_ *= 2;
    }
    curve_.push_back(point);
    in_last_point_ = 1;
  }
  /// Of what has moved since the last reading that was used: the cause, or kSeveralCauses if calls
  /// of other causes had no such reading of their own.
  uint8_t cause_of(uint8_t cause, int64_t moved) const {
    const bool is_one = (pending_.causes & ~(1u << cause)) == 0;
    return is_one || moved < kPage ? cause : kSeveralCauses;
  }
  void attribute(const DriverReadingEvent& reading, const TrackedBytes& tracked, int64_t moved) {
    ItemKey key{reading.cause, reading.name, reading.api, reading.stack};
    if (reading.cause == GPUPEAK_LEDGER_NONE && pending_.cause() != GPUPEAK_LEDGER_NONE)
      key = pending_.last;
    const uint8_t cause = cause_of(std::get<0>(key), moved);
    std::get<0>(key) = cause;
    pending_ = {};
    if (cause != GPUPEAK_LEDGER_NONE) {
      Item& item = rows_.items[key];
      item.bytes += moved;
      ++item.count;
      int64_t& bytes = rows_.causes[cause];
      bytes += moved;
      // Bytes of arrays are estimates, so they may take less.
      if (bytes >= 0 || cause == GPUPEAK_LEDGER_ARRAYS || cause == GPUPEAK_LEDGER_MANAGED) return;
      int64_t missing = std::exchange(bytes, 0);
      // A context that ends gives back its code and streams, too, and code that is unloaded may
      // have come with local memory. Where all is this process's, any call may give back what
      // another took.
      const bool of_all = own_mode_ || cause == GPUPEAK_LEDGER_CONTEXT;
      for (uint8_t other = 0; other <= kSeveralCauses; ++other) {
        if (other == GPUPEAK_LEDGER_ARRAYS || other == GPUPEAK_LEDGER_MANAGED) continue;
        if (!of_all && other != GPUPEAK_LEDGER_LOCAL_MEMORY) continue;
        const int64_t taken = std::min(rows_.causes[other], -missing);
        rows_.causes[other] -= taken;
        missing += taken;
      }
      // If the first reading had our context in it, that is where the rest was.
      if (!start_)
        base_ += missing;
      else if (missing < -kForeign && !own_mode_ && tracked.is_all_seen())
        others_moved();
    } else {
      // Managed memory takes memory when it is touched, and no call shows that. So it gets what
      // nothing else explains, up to as much as there is of it. The rest stays unexplained.
      int64_t& resident = rows_.causes[GPUPEAK_LEDGER_MANAGED];
      const int64_t before = resident;
      const auto most = std::max(resident, static_cast<int64_t>(managed_pages_.bytes()));
      resident = std::clamp<int64_t>(resident + moved, std::min<int64_t>(resident, 0), most);
      // So does the host's memory, if it is the same as the device's. What the process had at the
      // start may become less.
      const int64_t grown = static_cast<int64_t>(tracked.host) - host_at_start_;
      host_ = std::clamp(host_ + moved - (resident - before), std::min(host_, -host_at_start_),
                         std::max(host_, grown));
    }
  }
  LedgerSnapshot snapshot(uint64_t used, const TrackedBytes& tracked, uint64_t ticks) const {
    LedgerSnapshot now{
        .ticks = ticks,
        .used = used,
        .card_used = used,
        .of_process = own_mode_,
        .others = own_mode_ ? others_ : std::nullopt,
        .processes = own_mode_ ? processes_ : std::vector<DriverReadingEvent::Process>(),
        .tracked = tracked,
        .linear_rounding = static_cast<int64_t>(pages_.bytes() - tracked.of[GPUPEAK_KIND_LINEAR]),
        .start = start_,
        .causes = rows_.causes,
        .host = host_};
    now.unexplained = static_cast<int64_t>(used) - physical(tracked) - base_ - host_;
    for (const int64_t bytes : rows_.causes) now.unexplained -= bytes;
    if (!start_) now.causes[GPUPEAK_LEDGER_CONTEXT] += base_;
    if (others_moved_) now.join_rows();
    return now;
  }
  void keep_nearest(const LedgerSnapshot& now) {
    std::optional<LedgerSnapshot>& at_peak = rows_.at_peak;
    if (!at_peak || now.tracked.total() > at_peak->tracked.total()) at_peak = now;
  }

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
    std::array<int64_t, kSeveralCauses + 1> causes{};
    std::map<ItemKey, Item> items;
    std::optional<LedgerSnapshot> at_peak, at_top, last;
    int64_t used = 0, physical = 0;  ///< at the last certain reading
  } rows_;
  /// As they were before the first reading without a list, since the last one with it.
  std::optional<Rows> before_estimates_;
  std::optional<uint64_t> start_;
  int64_t base_ = 0;  ///< what was in use beyond tracked memory at the first reading
  std::optional<uint64_t> others_at_start_;
  int64_t host_at_start_ = 0, host_ = 0;
  std::optional<Point> highest_;
  std::optional<uint64_t> own_peak_, reserved_;
  uint64_t overlaps_ = 0, uncertain_ = 0;
  /// What readings were of that are not used, or are estimates.
  struct Causes {
    ItemKey last{};       ///< the last one that had a cause
    uint32_t causes = 0;  ///< bits: of all

    uint8_t cause() const { return std::get<0>(last); }
    void add(const ItemKey& item) {
      if (std::get<0>(item) == GPUPEAK_LEDGER_NONE) return;
      last = item;
      causes |= 1u << std::get<0>(item);
    }
  };
  Causes pending_, estimated_;
  std::vector<Point> curve_;
  size_t points_merged_ = 1;  ///< how many readings a point of the curve stands for
  size_t in_last_point_ = 0;
};

}  // namespace gpupeak::collector
