#include "collector/replay/ledger.h"

#include <algorithm>

#include "gpupeak/log_format.h"

namespace gpupeak::collector {

void PageCount::add(uint64_t address, uint64_t bytes) {
  if (bytes == 0) return;
  const uint64_t first = address >> kPageShift, last = (address + bytes - 1) >> kPageShift;
  if (bytes > kLargestSmallBlock) {
    whole_pages_ += last - first + 1;
    return;
  }
  for (uint64_t page = first; page <= last; ++page) ++pages_[page];
}

void PageCount::remove(uint64_t address, uint64_t bytes) {
  if (bytes == 0) return;
  const uint64_t first = address >> kPageShift, last = (address + bytes - 1) >> kPageShift;
  if (bytes > kLargestSmallBlock) {
    whole_pages_ -= std::min(whole_pages_, last - first + 1);
    return;
  }
  for (uint64_t page = first; page <= last; ++page) {
    const auto entry = pages_.find(page);
    if (entry != pages_.end() && --entry->second == 0) pages_.erase(entry);
  }
}

uint64_t& TrackedBytes::of(uint8_t kind) {
  switch (kind) {
    case GPUPEAK_KIND_LINEAR:
      return linear;
    case GPUPEAK_KIND_POOL:
      return pool_used;
    case GPUPEAK_KIND_VMM:
      return vmm;
    case GPUPEAK_KIND_ARRAY:
      return array;
    case GPUPEAK_KIND_GRAPH:
      return graph;
    default:
      return others;
  }
}

int64_t DeviceLedger::physical(const TrackedBytes& tracked) const {
  return static_cast<int64_t>(pages_.bytes() + tracked.pool_reserved + tracked.vmm + tracked.array +
                              tracked.graph + tracked.others);
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
  uint8_t cause = reading.cause;
  ItemKey key{cause, reading.name, reading.api, reading.stack};
  if (cause == GPUPEAK_LEDGER_NONE && pending_cause_ != GPUPEAK_LEDGER_NONE) {
    cause = pending_cause_;
    key = pending_item_;
  }
  pending_cause_ = GPUPEAK_LEDGER_NONE;
  if (cause != GPUPEAK_LEDGER_NONE) {
    causes_[cause] += moved;
    Item& item = items_[key];
    item.bytes += moved;
    ++item.count;
  } else {
    // Managed memory takes memory when it is touched, and no call shows that. So it gets what
    // nothing else explains, up to as much as there is of it. The rest stays unexplained.
    int64_t& resident = causes_[GPUPEAK_LEDGER_MANAGED];
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
  LedgerSnapshot now{.ticks = ticks,
                     .used = used,
                     .tracked = tracked,
                     .linear_rounding = static_cast<int64_t>(pages_.bytes() - tracked.linear),
                     .start = start_,
                     .external = external_,
                     .causes = causes_,
                     .host = host_};
  int64_t explained = physical(tracked) + base_ + external_ + host_;
  for (const int64_t bytes : causes_) explained += bytes;
  now.unexplained = static_cast<int64_t>(used) - explained;
  if (!start_) now.causes[GPUPEAK_LEDGER_CONTEXT] += base_;
  return now;
}

void DeviceLedger::keep_nearest(const LedgerSnapshot& now) {
  if (!at_peak_ || now.tracked.total() > at_peak_->tracked.total()) at_peak_ = now;
}

std::optional<LedgerSnapshot> DeviceLedger::on_failed_allocation(uint64_t used,
                                                                 const TrackedBytes& tracked,
                                                                 uint64_t ticks) {
  if (!any_) return std::nullopt;
  if (used > highest_->used) highest_ = Point{ticks, used};
  add_to_curve({ticks, used});
  LedgerSnapshot now = snapshot(used, tracked, ticks);
  now.by_failed_call = true;
  keep_nearest(now);
  return now;
}

uint64_t DeviceLedger::joined_with(const DriverReadingEvent& reading) const {
  // Before its first context this process held nothing, so the rest of what moved is the others'.
  if (reading.cause != GPUPEAK_LEDGER_CONTEXT || !reading.own || !start_) return 0;
  const int64_t joined =
      static_cast<int64_t>(reading.used) - last_used_ - static_cast<int64_t>(*reading.own);
  // A context takes some MiB that NVML counts for no process.
  constexpr int64_t kOfNobody = 16 << 20;
  if (joined < kOfNobody) return 0;
  return std::min(static_cast<uint64_t>(joined), *reading.others);
}

void DeviceLedger::on_reading(const DriverReadingEvent& reading, const TrackedBytes& tracked,
                              uint64_t ticks) {
  const auto used = static_cast<int64_t>(reading.used);
  const int64_t now_physical = physical(tracked);
  const int64_t external_before = external_;
  if (reading.others) {
    if (!others_at_start_) others_at_start_ = *reading.others - joined_with(reading);
    external_ = static_cast<int64_t>(*reading.others) - static_cast<int64_t>(*others_at_start_);
  }
  if (reading.reserved) reserved_ = reading.reserved;
  if (reading.own) own_peak_ = std::max(own_peak_.value_or(0), *reading.own);
  by_nvml_ = reading.source == GPUPEAK_READING_NVML;
  overlaps_ += reading.overlaps;

  if (!highest_ || reading.used > highest_->used) highest_ = Point{ticks, reading.used};
  add_to_curve({ticks, reading.used});
  if (reading.uncertain && any_) {
    // The next certain reading shows what moved.
    ++uncertain_;
    external_ = external_before;
    if (reading.cause != GPUPEAK_LEDGER_NONE) {
      pending_cause_ = reading.cause;
      pending_item_ = {reading.cause, reading.name, reading.api, reading.stack};
    }
    return;
  }
  if (!any_) {
    any_ = true;
    // Before the first context the reading is what was there before us. Later it has the context in
    // it.
    if (!had_context_ && reading.cause == GPUPEAK_LEDGER_NONE) start_ = reading.used;
    base_ = used - now_physical;
    host_at_start_ = static_cast<int64_t>(tracked.host);
  } else {
    const int64_t moved =
        used - last_used_ - (now_physical - last_physical_) - (external_ - external_before);
    attribute(reading, tracked, moved);
  }
  last_used_ = used;
  last_physical_ = now_physical;

  LedgerSnapshot now = snapshot(reading.used, tracked, ticks);
  now.own = reading.own;
  keep_nearest(now);
  if (now.own == std::nullopt && last_) now.own = last_->own;
  last_ = now;
}

}  // namespace gpupeak::collector
