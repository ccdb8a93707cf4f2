#include "collector/merge/read_process.h"

#include <fmt/format.h>

#include <algorithm>

#include "collector/analyze/analyze.h"
#include "collector/log/coverage.h"
#include "collector/log/log_reader.h"
#include "collector/replay/replay.h"
#include "collector/summary/failure_cause.h"
#include "collector/summary/failure_text.h"
#include "collector/summary/verdict.h"
#include "collector/text/scope_key.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kSites = 20;  ///< for each peak; what a rank has more of than others is among them

/// A curve of events of which not all have a time stamp. Each device event has one. In a process
/// with one thread only each 32nd heap event has one: the others happened between two stamps. So
/// the host's largest value between two stamps counts for all of that time.
class StampedCurve {
 public:
  explicit StampedCurve(bool coarse) : coarse_(coarse) {}

  void add(uint64_t ns, uint64_t bytes) {
    if (!coarse_) return curve_.add(ns, bytes);
    if (ns != stamp_ns_) curve_.add(ns, last_bytes_);
    largest_bytes_ = std::max(bytes, ns != stamp_ns_ ? last_bytes_ : largest_bytes_);
    curve_.add(ns, largest_bytes_);
    stamp_ns_ = ns;
    last_bytes_ = bytes;
  }
  HeldCurve take() { return std::move(curve_); }

 private:
  HeldCurve curve_;
  bool coarse_;
  uint64_t stamp_ns_ = 0, last_bytes_ = 0, largest_bytes_ = 0;
};

/// Notes how the sums of all kinds change.
class SumsOverTime : public ReplayObserver {
 public:
  explicit SumsOverTime(uint64_t start_ns) : start_ns_(start_ns), last_ns_(start_ns) {}

  void after(const Event& event) override {
    find_new_scopes();
    last_ns_ = start_ns_ + static_cast<uint64_t>(replay().log().clock().to_ns(event.ticks));
    for (Watched& sum : watched_) {
      const PeakFinder::Scope& scope = replay().peaks().scope(sum.scope);
      sum.curve.add(last_ns_, scope.current);
      sum.peak_bytes = scope.peak;
    }
  }

  uint64_t last_ns() const { return last_ns_; }
  std::map<std::string, HeldCurve> take() {
    std::map<std::string, HeldCurve> curves;
    for (Watched& sum : watched_) {
      HeldCurve& curve = curves[sum.name] = sum.curve.take();
      curve.raise_peak(sum.peak_bytes);
    }
    const auto devices = std::count_if(curves.begin(), curves.end(), [](const auto& curve) {
      return is_whole_device(curve.first);
    });
    if (devices == 1) curves.erase("device");  // it is the same as the only device's
    return curves;
  }

 private:
  void find_new_scopes() {
    const std::vector<ScopeInfo>& scopes = replay().sites().scopes();
    for (; seen_ < scopes.size(); ++seen_) {
      if (scopes[seen_].kind != 0 || scopes[seen_].name == "total") continue;
      const std::string& name = scopes[seen_].name;
      watched_.push_back({static_cast<ScopeId>(seen_), name, StampedCurve(name == "host"), 0});
    }
  }

  struct Watched {
    ScopeId scope;
    std::string name;
    StampedCurve curve;
    uint64_t peak_bytes;
  };
  const uint64_t start_ns_;
  uint64_t last_ns_;
  size_t seen_ = 0;
  std::vector<Watched> watched_;
};

void add_peak(const Summary& summary, const std::string& side, ProcessRecord& record) {
  const bool one_device = side == "device" && summary.devices.size() == 1;
  const Peak* peak = summary.find_peak(
      one_device ? ScopeKey::device(summary.devices.front().ordinal).text() : side);
  if (peak == nullptr) return;
  OwnPeak& own = record.peaks.emplace_back();
  own.side = side;
  own.bytes = peak->bytes;
  own.time_ns = peak->time_ns;
  own.phase = peak->phase;
  for (const TagShare& tag : peak->tags) own.tags.push_back({tag.name, tag.bytes});
  for (const Holder& holder : peak->holders) own.sites.push_back({holder.title, holder.bytes});
  own.other_bytes = peak->other_bytes;
}

/// The last refused request: the one that the program could not live with.
std::optional<Refusal> last_refusal(const Summary& summary) {
  const std::vector<FailureGroup> groups = fold_failures(summary);
  if (groups.empty() || !found_no_memory(*groups.back().last)) return std::nullopt;
  const OutOfMemory& oom = *groups.back().last;
  return Refusal{oom.api,   oom.device, oom.requested_bytes, oom.time_ns,
                 oom.phase, oom.title,  why_text(oom, {}),   groups.back().count};
}

uint64_t end_of(const gpupeak_counters_page& page, uint64_t last_ns) {
  if (page.ended != 0) return std::max(page.end_monotonic_ns, last_ns);
  return page.exit_monotonic_ns == 0 ? 0 : std::max(page.exit_monotonic_ns, last_ns);
}

}  // namespace

ProcessRecord read_process(const std::string& path, const Options& options,
                           const Progress& progress, Summary* whole) {
  const LogReader log(path, options.reading.sanitizer, options.reading.heap);
  const gpupeak_file_header& header = log.header();
  SumsOverTime sums(header.start_monotonic_ns);
  Summary summary = analyze(log, path, options, progress, &sums);

  ProcessRecord record;
  record.id = header.cookie;
  record.log_path = summary.log_path;
  record.confidential = summary.confidential;
  const Sanitizer& sanitizer = log.definitions().sanitizer();
  const std::string_view boot = log.definitions().fact("boot");
  record.boot = sanitizer.is_confidential() ? sanitizer.id(boot) : escape(boot);
  record.process_start_time = header.process_start_time;
  record.start_realtime_ns = header.start_realtime_ns;
  record.start_monotonic_ns = header.start_monotonic_ns;
  record.last_ns = sums.last_ns();
  record.end_ns = end_of(log.counters(), record.last_ns);
  record.host_measured = coverage_of(log).host() && !summary.quality.heap_not_read;
  record.curves = sums.take();
  for (auto& [scope, curve] : record.curves) {
    curve.finish(HeldCurve::kRoomBytes / record.curves.size());
    if (record.end_ns != 0) curve.end_at(record.end_ns);
  }
  for (const std::string side : {"device", "host"}) add_peak(summary, side, record);
  record.refusal = last_refusal(summary);
  record.run = summary.run;
  record.run.labels.clear();
  record.quality = summary.quality;
  for (const DeviceSummary& device : summary.devices) {
    DeviceSummary& own = record.devices.emplace_back();
    own.ordinal = device.ordinal;
    own.uuid = device.uuid;
    own.name = device.name;
    own.total_bytes = device.total_bytes;
  }
  if (whole != nullptr) *whole = std::move(summary);
  return record;
}

ProcessRecord read_process(const std::string& path, const Reading& reading,
                           const Progress& progress) {
  Options options;
  options.reading = reading;
  options.stacks = false;
  options.top = kSites;
  return read_process(path, options, progress, nullptr);
}

}  // namespace gpupeak::collector
