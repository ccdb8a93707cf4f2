#include "collector/replay/ledger.h"

#include <algorithm>
#include <utility>

#include "gpupeak/log_format.h"

namespace gpupeak::collector {
namespace {

constexpr int64_t kPage = 2 << 20;
/// The driver's figure and ours may be apart by so much without another process.
constexpr int64_t kForeign = 16 << 20;

}  // namespace

void PageCount::count(uint64_t address, uint64_t bytes, bool is_added) {
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

void DeviceLedger::add_to_curve(Point point) {
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

void DeviceLedger::attribute(const DriverReadingEvent& reading, const TrackedBytes& tracked,
                             int64_t moved) {
  ItemKey key{reading.cause, reading.name, reading.api, reading.stack};
  if (reading.cause == GPUPEAK_LEDGER_NONE && pending_cause_ != GPUPEAK_LEDGER_NONE)
    key = pending_item_;
  pending_cause_ = GPUPEAK_LEDGER_NONE;
  const uint8_t cause = std::get<0>(key);
  if (cause != GPUPEAK_LEDGER_NONE) {
    Item& item = rows_.items[key];
    item.bytes += moved;
    ++item.count;
    int64_t& bytes = rows_.causes[cause];
    bytes += moved;
    // Bytes of arrays are estimates, so they may take less.
    if (bytes >= 0 || cause == GPUPEAK_LEDGER_ARRAYS || cause == GPUPEAK_LEDGER_MANAGED) return;
    int64_t missing = std::exchange(bytes, 0);
    // A context that ends gives back its code and streams, too, and code that is unloaded may have
    // come with local memory. Where all is this process's, any call may give back what another
    // took.
    const bool of_all = own_mode_ || cause == GPUPEAK_LEDGER_CONTEXT;
    for (uint8_t other = 0; other < GPUPEAK_LEDGER_LIMIT; ++other) {
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

LedgerSnapshot DeviceLedger::snapshot(uint64_t used, const TrackedBytes& tracked,
                                      uint64_t ticks) const {
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
      .external = external_,
      .causes = rows_.causes,
      .host = host_};
  now.unexplained = static_cast<int64_t>(used) - physical(tracked) - base_ - external_ - host_;
  for (const int64_t bytes : rows_.causes) now.unexplained -= bytes;
  if (!start_) now.causes[GPUPEAK_LEDGER_CONTEXT] += base_;
  if (others_moved_) now.join_rows();
  return now;
}

void LedgerSnapshot::join_rows() {
  int64_t rest =
      static_cast<int64_t>(start.value_or(0) + card_used - used) + external + host + unexplained;
  for (const int64_t bytes : causes) rest += bytes;
  causes = {};
  causes[GPUPEAK_LEDGER_CONTEXT] = rest;
  external = host = unexplained = 0;
  start.reset();
  used = card_used;
  of_process = false;
  others.reset();
  processes.clear();
  others_moved = true;
}

void DeviceLedger::keep_nearest(const LedgerSnapshot& now) {
  std::optional<LedgerSnapshot>& at_peak = rows_.at_peak;
  if (!at_peak || now.tracked.total() > at_peak->tracked.total()) at_peak = now;
}

std::optional<LedgerSnapshot> DeviceLedger::on_failed_allocation(uint64_t used,
                                                                 const TrackedBytes& tracked,
                                                                 uint64_t ticks) {
  if (!any_) return std::nullopt;
  if (used > highest_->used) highest_ = Point{ticks, used};
  // The driver then says how much is free, for whomever. Of the rest this process has what it had
  // at the last reading and what was handed out since; others have more or less.
  const uint64_t own = own_mode_ ? static_cast<uint64_t>(std::max<int64_t>(
                                       0, rows_.used + physical(tracked) - rows_.physical))
                                 : used;
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

uint64_t DeviceLedger::figure(const DriverReadingEvent& reading) const {
  if (!own_mode_) return reading.used;
  return reading.own.value_or(reading.used - std::min(reading.used, beside_));
}

uint64_t DeviceLedger::joined_with(const DriverReadingEvent& reading) const {
  // Before its first context this process held nothing, so the rest of what moved is the others'.
  if (reading.cause != GPUPEAK_LEDGER_CONTEXT || !reading.own || !start_) return 0;
  const int64_t joined =
      static_cast<int64_t>(reading.used) - rows_.used - static_cast<int64_t>(*reading.own);
  // A context takes some MiB that NVML counts for no process.
  return joined < kForeign ? 0 : std::min(static_cast<uint64_t>(joined), *reading.others);
}

void DeviceLedger::restart_curve() {
  curve_.clear();
  in_last_point_ = 0;
  points_merged_ = 1;
}

void DeviceLedger::begin_own(const DriverReadingEvent& reading) {
  own_mode_ = true;
  others_moved_ = false;
  beside_ = reading.used - std::min(reading.used, *reading.own);
  restart_curve();
  rows_ = {};
  base_ = host_ = 0;
  // Before its first context the process had nothing. If its entry is known only later, what it has
  // beyond tracked memory by then is one row.
  const uint8_t cause = reading.cause != GPUPEAK_LEDGER_NONE ? reading.cause : pending_cause_;
  any_ = start_ && cause == GPUPEAK_LEDGER_CONTEXT;
  start_.reset();
  if (any_) start_ = 0;
}

void DeviceLedger::others_moved() {
  others_moved_ = true;
  if (rows_.at_peak) rows_.at_peak->join_rows();
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

void DeviceLedger::undo_estimates() {
  if (before_estimates_) {
    pending_cause_ = std::get<0>(estimated_item_);
    pending_item_ = estimated_item_;
    rows_ = std::move(*before_estimates_);
  }
  before_estimates_.reset();
  beside_moves_ = true;
}

bool DeviceLedger::is_of_others(uint8_t cause, int64_t moved) const {
  const Rows& sure = before_estimates_ ? *before_estimates_ : rows_;
  const int64_t most =
      cause == GPUPEAK_LEDGER_NONE ? kForeign : std::max<int64_t>(sure.causes[cause], 0) + kPage;
  return moved < -most;
}

void DeviceLedger::check_estimates(const DriverReadingEvent& reading) {
  const uint64_t beside = reading.used - std::min(reading.used, *reading.own);
  if (std::llabs(static_cast<int64_t>(beside - beside_)) > kPage) undo_estimates();
  before_estimates_.reset();
  beside_ = beside;
}

void DeviceLedger::on_reading(const DriverReadingEvent& reading, const TrackedBytes& tracked,
                              uint64_t ticks) {
  const bool is_listed = reading.has_list && reading.own && !is_entry_wrong_;
  const int64_t external_before = external_;
  if (is_listed && !own_mode_ && !reading.uncertain) begin_own(reading);
  if (reading.others && !reading.has_list) {
    if (!others_at_start_) others_at_start_ = *reading.others - joined_with(reading);
    external_ = static_cast<int64_t>(*reading.others) - static_cast<int64_t>(*others_at_start_);
  } else if (reading.others && !is_entry_wrong_) {
    if (!others_at_start_) others_at_start_ = *reading.others;
    others_ = reading.others;
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
    external_ = external_before;
    if (reading.cause != GPUPEAK_LEDGER_NONE) {
      pending_cause_ = reading.cause;
      pending_item_ = key;
    }
    if (!is_estimate) add_to_curve({ticks, used});
    return;
  }
  if (is_estimate) {
    if (!before_estimates_) {
      before_estimates_ = rows_;
      estimated_item_ = {};
    }
    if (reading.cause != GPUPEAK_LEDGER_NONE) estimated_item_ = key;
  } else if (own_mode_) {
    check_estimates(reading);
  }
  if (!any_) {
    any_ = true;
    // Before the first context the reading is what was there before us. Later it has the context in
    // it.
    if (!had_context_ && reading.cause == GPUPEAK_LEDGER_NONE) start_ = used;
    base_ = untracked;
    host_at_start_ = static_cast<int64_t>(tracked.host);
  } else {
    attribute(reading, tracked, moved() - (external_ - external_before));
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
  add_to_curve({ticks, now.used});
  keep_nearest(now);
  rows_.last = now;
}

}  // namespace gpupeak::collector
