#include <algorithm>
#include <array>
#include <numeric>

#include "collector/analyze/summary_parts.h"
#include "collector/log/log_head.h"
#include "tools/top/top.h"

namespace gpupeak::tools {
namespace {

constexpr double kGrowthSeconds = 60, kLeastGrowthSeconds = 3;
constexpr size_t kGrowthPoints = 60, kMostPoints = 4096;
constexpr double kEventSeconds = 5;  // the rate of events is that of the last 5 seconds

/// Adds a point. If there are too many, every second point of the older half is removed.
void add(TopCurve& curve, CurvePoint point) {
  if (!curve.empty() && point.seconds <= curve.back().seconds) return;
  curve.push_back(point);
  if (curve.size() < kMostPoints) return;
  TopCurve thinned;
  const size_t old = curve.size() / 2;
  for (size_t i = 0; i < old; i += 2) {
    const bool second = curve[i + 1].bytes > curve[i].bytes;  // the larger stays: no peak is lost
    thinned.push_back(curve[second ? i + 1 : i]);
  }
  thinned.insert(thinned.end(), curve.begin() + static_cast<ptrdiff_t>(old), curve.end());
  curve = std::move(thinned);
}

uint64_t event_count(const gpupeak_counters_page& page) {
  return page.device_events + page.heap_alloc_count + page.heap_free_count;
}

/// The curve of the replay, and behind it the curve of the looks.
TopCurve joined(TopCurve curve, const TopCurve& seen) {
  if (seen.empty()) return curve;
  // The replay knows the time before the first look; from then on the looks know more.
  const double begin = seen.front().seconds;
  std::erase_if(curve, [begin](const CurvePoint& point) { return point.seconds >= begin; });
  curve.insert(curve.end(), seen.begin(), seen.end());
  return curve;
}

TopCurve find(const std::map<int32_t, TopCurve>& curves, int32_t device) {
  const auto found = curves.find(device);
  return found == curves.end() ? TopCurve() : found->second;
}

}  // namespace

void TopProgram::look(const FolderLog& log, double now) {
  const bool is_other = log.head.header.cookie != log_.head.header.cookie;
  if (is_other) *this = {};
  log_ = log;
  now_ = now;
  if (!log_.is_live()) return;
  const double at = now - static_cast<double>(log_.head.header.start_realtime_ns) / kNsPerSecond;
  for (const int32_t number : devices()) add(seen_[number], {at, device(number).total.live});
  const collector::Coverage coverage = collector::coverage_of(log_.head.header, log_.head.counters);
  if (coverage.heap_counters || coverage.windows)
    add(heap_seen_, {at, log_.head.counters.heap.live});
  add(events_, {at, event_count(log_.head.counters)});
}

std::optional<double> TopProgram::seconds() const {
  const gpupeak_file_header& header = log_.head.header;
  const gpupeak_counters_page& page = log_.head.counters;
  if (log_.is_live()) return now_ - static_cast<double>(header.start_realtime_ns) / kNsPerSecond;
  if (page.ended != 0 && page.end_monotonic_ns > header.start_monotonic_ns)
    return static_cast<double>(page.end_monotonic_ns - header.start_monotonic_ns) / kNsPerSecond;
  if (findings_) return findings_->at_seconds;
  return std::nullopt;
}

std::vector<int32_t> TopProgram::devices() const {
  return collector::counted_devices(log_.head.counters);
}

const collector::DeviceInfo* TopProgram::info(int32_t number) const {
  for (const collector::DeviceInfo& info : log_.facts.devices) {
    if (static_cast<int32_t>(info.ordinal) == number) return &info;
  }
  return nullptr;
}

uint64_t TopProgram::device_live() const {
  uint64_t bytes = 0;
  for (const int32_t number : devices()) bytes += device(number).total.live;
  return log_.is_live() ? bytes : 0;
}

uint64_t TopProgram::device_peak() const {
  uint64_t bytes = 0;
  for (const int32_t number : devices()) bytes = std::max(bytes, device(number).total.peak);
  return bytes;
}

bool TopProgram::has_heap() const {
  return collector::coverage_of(log_.head.header, log_.head.counters).heap_counters;
}

TopCurve TopProgram::curve(int32_t device) const {
  return joined(findings_ ? find(findings_->devices, device) : TopCurve(), find(seen_, device));
}

TopCurve TopProgram::heap_curve() const {
  // The looks count usable bytes, a replay requested bytes: these must not be mixed in one curve.
  if (heap_seen_.size() > 2 || !findings_) return heap_seen_;
  return findings_->heap;
}

std::optional<double> TopProgram::events_per_second() const {
  if (events_.size() < 2) return std::nullopt;
  const CurvePoint& last = events_.back();
  auto first = events_.end() - 2;
  while (first != events_.begin() && last.seconds - first->seconds < kEventSeconds) --first;
  return static_cast<double>(last.bytes - first->bytes) / (last.seconds - first->seconds);
}

const collector::Peak* TopProgram::host_peak() const {
  if (!findings_) return nullptr;
  for (const collector::Peak& peak : findings_->summary.peaks) {
    if (peak.scope == "host") return &peak;
  }
  return nullptr;
}

std::optional<double> TopProgram::growth(const TopCurve& all) const {
  if (!log_.is_live() || all.size() < 3) return std::nullopt;
  const double end = all.back().seconds;
  // Of a young program only the second half counts: memory taken at the start is no growth.
  const double begin = std::max({all.front().seconds, end - kGrowthSeconds, end / 2});
  if (end - begin < kLeastGrowthSeconds) return std::nullopt;
  // Points at equal distances, since a replay gives many points where much happened.
  std::array<double, kGrowthPoints> values{};
  size_t at = 0;
  for (size_t i = 0; i < kGrowthPoints; ++i) {
    const double when = begin + (end - begin) * static_cast<double>(i) / (kGrowthPoints - 1);
    while (at + 1 < all.size() && all[at + 1].seconds <= when) ++at;
    values[i] = static_cast<double>(all[at].bytes);
  }
  const double middle = std::accumulate(values.begin(), values.end(), 0.0) / kGrowthPoints;
  double xx = 0, xy = 0;
  for (size_t i = 0; i < kGrowthPoints; ++i) {
    const double x = static_cast<double>(i) - (kGrowthPoints - 1) / 2.0;
    xx += x * x;
    xy += x * (values[i] - middle);
  }
  return xy / xx * (kGrowthPoints - 1) / (end - begin);
}

std::optional<uint64_t> TopProgram::used(int32_t device) const {
  if (!findings_ || !log_.is_live()) return std::nullopt;
  for (const collector::DeviceSummary& of : findings_->summary.devices) {
    if (of.ordinal != device || !of.ledger) continue;
    const collector::LedgerView& reading = of.ledger->at_exit;
    const uint64_t others =
        reading.card_used_bytes - std::min(reading.card_used_bytes, reading.tracked_bytes);
    return others + this->device(device).total.live;
  }
  return std::nullopt;
}

std::optional<double> TopProgram::seconds_to_full(int32_t device) const {
  const std::optional<double> growth = this->growth(device);
  const collector::DeviceInfo* card = info(device);
  if (!growth || card == nullptr || card->total_bytes == 0) return std::nullopt;
  // An integrated GPU's memory is also the host's, which takes some of it.
  if ((card->memory & GPUPEAK_MEMORY_INTEGRATED) != 0) return std::nullopt;
  const uint64_t live = used(device).value_or(this->device(device).total.live);
  // At a slower growth it takes longer than anybody waits.
  constexpr double kLeast = 1024;
  if (*growth < kLeast || live > card->total_bytes) return std::nullopt;
  return static_cast<double>(card->total_bytes - live) / *growth;
}

}  // namespace gpupeak::tools
