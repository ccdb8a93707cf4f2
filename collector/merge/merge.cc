#include "collector/merge/merge.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <iterator>
#include <protozero/varint.hpp>
#include <set>
#include <tuple>

#include "collector/log/byte_reader.h"
#include "collector/log/log_head.h"
#include "collector/log/run_record.h"
#include "collector/replay/replay.h"
#include "collector/summary/run_text.h"
#include "collector/summary/verdict.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/scope_key.h"

namespace gpupeak::collector {
namespace {

/// Whether a signal from outside ended it. Launchers end the other processes with them, schedulers
/// end a job, the kernel ends a process that takes too much memory. A shell reports them as exit
/// codes.
bool is_from_outside(const RunEnd& end) {
  constexpr int32_t kSignalBase = 128;
  const int32_t signal = end.kind == ExitKind::kSignal ? end.code
                         : end.code > kSignalBase      ? end.code - kSignalBase
                                                       : 0;
  return signal == SIGTERM || signal == SIGKILL || signal == SIGINT || signal == SIGHUP;
}

Casualty casualty(const Merged& merged, const JobClock& clock, size_t i) {
  const ProcessRecord& process = merged.processes[i];
  Casualty out{i, Casualty::How::kFailed, 0};
  if (is_from_outside(process.run.end))
    out.how = Casualty::How::kSignalled;
  else if (process.refusal)
    out.how = Casualty::How::kRefused;
  const uint64_t when =
      out.how == Casualty::How::kRefused
          ? process.start_monotonic_ns + static_cast<uint64_t>(process.refusal->time_ns)
      : process.end_ns != 0 ? process.end_ns
                            : process.last_ns;
  out.time_ns = clock.job_ns(merged.node_of[i], when);
  return out;
}

/// A process that did not end in order was in trouble since its last request was refused or,
/// without a refusal, since it ended. If a signal from outside ended it, an earlier refusal does
/// not count: programs can live with refusals.
JobEnd find_job_end(const Merged& merged, const JobClock& clock) {
  JobEnd end;
  for (size_t i = 0; i < merged.processes.size(); ++i) {
    const ProcessRecord& process = merged.processes[i];
    if (process.run.end.in_order())
      ++end.in_order;
    else if (process.run.end.kind != ExitKind::kUnknown)
      end.casualties.push_back(casualty(merged, clock, i));
    else
      ++(process.end_ns != 0 ? end.not_said : end.without_end);
  }
  std::ranges::sort(end.casualties, {},
                    [](const Casualty& of) { return std::tuple(of.time_ns, of.process); });
  return end;
}

/// Whether `a` was read later than `b`, of the same log. Records that were read at the same time
/// need some order; any will do.
bool is_later(const ProcessRecord& a, const ProcessRecord& b) {
  const auto key = [](const ProcessRecord& record) {
    const bool said = record.run.end.kind != ExitKind::kUnknown;
    return std::tuple(said, record.end_ns != 0, record.last_ns, record.quality.events);
  };
  if (key(a) != key(b)) return key(a) > key(b);
  return record_text(a) > record_text(b);
}

auto by_rank(const ProcessRecord& record) {
  return std::tuple(!record.run.rank.has_value(), record.run.rank.value_or(0),
                    record.start_realtime_ns, record.run.host, record.run.pid, record.id);
}

void note_missing_ends(Merged& merged) {
  constexpr size_t kMostNamed = 4;
  size_t open = 0;
  for (const ProcessRecord& process : merged.processes) {
    if (process.end_ns == 0 && ++open <= kMostNamed)
      merged.notes.push_back(
          fmt::format("{} has no end: what the process held last is counted to the end of all",
                      process.log_path));
  }
  if (open > kMostNamed) merged.notes.push_back(fmt::format("so have {} more", open - kMostNamed));
}

constexpr size_t kFewestCompared = 3;
constexpr uint64_t kDeviations = 7;  ///< about five standard deviations of a normal spread

constexpr uint64_t kWorthSaying = 100;  ///< 1/100 of the median peak

/// The median; of two in the middle the lower one. `values` must not be empty.
uint64_t median(std::vector<uint64_t> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

uint64_t difference(uint64_t a, uint64_t b) {
  return a > b ? a - b : b - a;
}

int64_t signed_difference(uint64_t a, uint64_t b) {
  const auto bytes = static_cast<int64_t>(std::min<uint64_t>(difference(a, b), INT64_MAX));
  return a > b ? bytes : -bytes;
}

/// Finds the outliers among processes that do the same work, on one side (device or host).
class Comparison {
 public:
  Comparison(const Merged& merged, std::vector<size_t> processes, std::string side)
      : merged_(merged), processes_(std::move(processes)), side_(std::move(side)) {}

  void add_to(std::vector<Outlier>& outliers) {
    std::erase_if(processes_, [&](size_t i) { return peak(i) == nullptr; });
    if (processes_.size() < kFewestCompared) return;
    Values peaks;
    for (const size_t i : processes_) peaks.push_back({peak(i)->bytes, true});
    median_peak_ = median_of(peaks);
    compare("peak", "", peaks, outliers);
    compare_parts("tag", &OwnPeak::tags, outliers);
    compare_parts("site", &OwnPeak::sites, outliers);
  }

 private:
  /// What each process has, in the order of processes_. If it is not known, it has at most so many
  /// bytes.
  struct Value {
    uint64_t bytes;
    bool is_known;
  };
  using Values = std::vector<Value>;

  const OwnPeak* peak(size_t process) const { return merged_.processes[process].find_peak(side_); }

  static uint64_t median_of(const Values& values) { return median(list_of(values, &Value::bytes)); }

  /// The most that a site can hold if it is not in a list that was cut: no more than the last row
  /// of the list, and no more than all rows that were cut off.
  static Value absent(const OwnPeak& peak, const std::vector<HeldPart>& parts, bool whole) {
    if (whole || parts.empty()) return {0, whole};
    return {std::min(parts.back().bytes, peak.other_bytes), peak.other_bytes == 0};
  }

  void compare_parts(const std::string& by, std::vector<HeldPart> OwnPeak::*list,
                     std::vector<Outlier>& outliers) const {
    // By name and index into processes_.
    std::map<std::string_view, std::map<size_t, uint64_t>> names;
    for (size_t i = 0; i < processes_.size(); ++i) {
      for (const HeldPart& part : peak(processes_[i])->*list) {
        // An address differs from process to process.
        const bool is_address = part.name.starts_with("0x");
        if (!is_address) names[part.name][i] += part.bytes;
      }
    }
    for (const auto& [name, bytes] : names) {
      Values values;
      for (size_t i = 0; i < processes_.size(); ++i) {
        const auto own = bytes.find(i);
        const OwnPeak& all = *peak(processes_[i]);
        values.push_back(own != bytes.end() ? Value{own->second, true}
                                            : absent(all, all.*list, by == "tag"));
      }
      compare(by, std::string(name), values, outliers);
    }
  }

  void compare(const std::string& by, const std::string& name, const Values& values,
               std::vector<Outlier>& outliers) const {
    const uint64_t usual = median_of(values);
    std::vector<uint64_t> differences;
    for (const Value& value : values) differences.push_back(difference(value.bytes, usual));
    const uint64_t spread = kDeviations * median(differences);
    const bool usual_is_known = std::ranges::all_of(
        values, [&](const Value& value) { return value.is_known || value.bytes < usual; });
    for (size_t i = 0; i < values.size(); ++i) {
      const bool is_far = differences[i] > spread && differences[i] >= median_peak_ / kWorthSaying;
      if (!values[i].is_known || !is_far) continue;
      outliers.push_back({processes_[i], side_, by, name, values[i].bytes,
                          usual_is_known ? std::optional(usual) : std::nullopt,
                          signed_difference(values[i].bytes, usual), processes_.size()});
    }
  }

  const Merged& merged_;
  std::vector<size_t> processes_;
  const std::string side_;
  uint64_t median_peak_ = 0;
};

uint64_t bytes_of(const ProcessRecord& process, std::string_view side) {
  const OwnPeak* peak = process.find_peak(side);
  return peak == nullptr ? 0 : peak->bytes;
}

/// Groups of processes that do the same work: they run the same program. Processes without a rank
/// are a group of their own, since they start the others. Children have their parent's rank, so of
/// several processes of one rank the one that needs most is taken.
std::vector<std::vector<size_t>> alike(const Merged& merged) {
  std::map<std::tuple<std::string, bool>, std::vector<size_t>> programs;
  for (size_t i = 0; i < merged.processes.size(); ++i) {
    const ProcessRecord& process = merged.processes[i];
    programs[{process.program(), process.run.rank.has_value()}].push_back(i);
  }
  std::vector<std::vector<size_t>> groups;
  for (auto& [program, group] : programs) {
    std::map<std::tuple<size_t, int32_t>, size_t> largest;
    std::vector<size_t>& kept = groups.emplace_back();
    for (const size_t i : group) {
      const ProcessRecord& process = merged.processes[i];
      if (!process.run.rank) {
        kept.push_back(i);
        continue;
      }
      const auto [entry, added] = largest.try_emplace({merged.node_of[i], *process.run.rank}, i);
      const auto need = [&](size_t of) {
        const ProcessRecord& record = merged.processes[of];
        return std::tuple(bytes_of(record, "device"), bytes_of(record, "host"));
      };
      if (!added && need(i) > need(entry->second)) entry->second = i;
    }
    for (const auto& [rank, i] : largest) kept.push_back(i);
  }
  return groups;
}

}  // namespace

void note_end_of_run(bool is_started, const RunEnd& end, Quality& quality) {
  // A fault or SIGKILL cuts a process short.
  const bool asks =
      end.code == SIGTERM || end.code == SIGINT || end.code == SIGHUP || end.code == SIGPIPE;
  const bool was_asked = quality.log_end == LogEnd::kKilled && asks && !is_started;
  if (quality.log_complete || (quality.log_end != LogEnd::kUnknown && !was_asked)) return;
  quality.log_complete = true;
  quality.log_end = LogEnd::kInOrder;
  for (Warning& warning : quality.warnings) {
    if (warning.code == WarningCode::kLogHasNoEnd)
      warning.message =
          "nobody saw how the process ended (killed by another, or left by exec): its log is whole "
          "up to its last event";
  }
}

void ProcessSet::add_log(const std::string& path, const Reading& reading,
                         const Progress& progress) {
  ProcessRecord record = read_process(path, reading, progress);
  const auto known = records_.find(record.id);
  if (known != records_.end() && known->second.is_log)
    throw UsageError(escape(path) + " is given twice");
  if (const auto run = read_run_record(path))
    record.ended_with = list_of(run->logs, &RunRecord::Log::id);
  add(std::move(record), true);
}

void ProcessSet::add(ProcessRecord record, bool is_log) {
  const auto [entry, added] = records_.try_emplace(record.id, Known{{}, is_log});
  entry->second.is_log |= is_log;
  repeated_ += !added;
  if (added || is_later(record, entry->second.record)) entry->second.record = std::move(record);
}

std::vector<ProcessRecord> ProcessSet::take() {
  std::vector<ProcessRecord> records;
  records.reserve(records_.size());
  std::set<uint64_t> ended;
  for (auto& [id, known] : records_) {
    const ProcessRecord& record = records.emplace_back(std::move(known.record));
    if (record.ended_with) ended.insert(record.ended_with->begin(), record.ended_with->end());
  }
  for (ProcessRecord& record : records) {
    if (ended.contains(record.id))
      note_end_of_run(record.ended_with.has_value(), record.run.end, record.quality);
  }
  records_.clear();
  std::ranges::sort(records, {}, by_rank);
  return records;
}

Merged merge(std::vector<ProcessRecord> processes) {
  Merged merged;
  merged.processes = std::move(processes);
  find_nodes(merged);
  end_by_exec(merged);
  const JobClock clock(merged);
  note_missing_ends(merged);
  add_node_sums(merged, clock);
  merged.outliers = find_outliers(merged);
  merged.end = find_job_end(merged, clock);
  return merged;
}

std::vector<Outlier> find_outliers(const Merged& merged) {
  std::vector<Outlier> outliers;
  for (const std::vector<size_t>& group : alike(merged)) {
    for (const std::string side : {"device", "host"})
      Comparison(merged, group, side).add_to(outliers);
  }
  std::ranges::sort(outliers, {}, [](const Outlier& outlier) {
    return std::tuple(-std::abs(outlier.excess_bytes), outlier.process, outlier.side, outlier.by,
                      outlier.name);
  });
  return outliers;
}

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
    const auto devices = std::ranges::count_if(
        curves, [](const auto& curve) { return is_whole_device(curve.first); });
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
  OwnPeak own{side, peak->bytes, peak->time_ns, peak->phase, {}, {}, peak->other_bytes};
  for (const TagShare& tag : peak->tags) own.tags.push_back({tag.name, tag.bytes});
  for (const Holder& holder : peak->holders) own.sites.push_back({holder.title, holder.bytes});
  record.peaks.push_back(std::move(own));
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

ProcessRecord identity_of(const LogReader& log, const std::string& path) {
  const gpupeak_file_header& header = log.header();
  const Sanitizer& sanitizer = log.definitions().sanitizer();
  const std::string_view boot = log.definitions().fact("boot");
  ProcessRecord record;
  record.id = header.cookie;
  record.log_path = sanitizer.text(path);
  record.boot = sanitizer.is_confidential() ? sanitizer.id(boot) : escape(boot);
  record.process_start_time = header.process_start_time;
  record.start_realtime_ns = header.start_realtime_ns;
  record.start_monotonic_ns = header.start_monotonic_ns;
  return record;
}

void ProcessRecord::note_resident(const Metrics& metrics) {
  for (const char* name : {"host.memory.peak_bytes", "host.memory.seen_bytes",
                           "host.rss.peak_bytes", "host.resident.gpupeak_bytes"}) {
    const auto bytes = metric(metrics, name);
    if (!bytes) continue;
    if (!resident) resident.emplace();
    (*resident)[name] = *bytes;
  }
}

ProcessRecord read_process(const LogReader& log, const Options& options, const Progress& progress,
                           Summary* whole) {
  const std::string& path = log.path();
  SumsOverTime sums(log.header().start_monotonic_ns);
  Summary summary = analyze(log, path, options, progress, &sums);

  ProcessRecord record = identity_of(log, path);
  record.confidential = summary.confidential;
  record.last_ns = sums.last_ns();
  record.end_ns = end_of(log.counters(), record.last_ns);
  record.host_measured = coverage_of(log).host() && !summary.quality.heap_not_read;
  record.curves = sums.take();
  for (auto& [scope, curve] : record.curves) {
    curve.finish(HeldCurve::kRoomBytes / record.curves.size());
    if (record.end_ns != 0) curve.end_at(record.end_ns);
  }
  for (const std::string side : {"device", "host"})
    if (side == "device" || record.host_measured) add_peak(summary, side, record);
  record.refusal = last_refusal(summary);
  record.run = summary.run;
  record.run.labels.clear();
  record.quality = summary.quality;
  record.note_resident(summary.metrics);
  for (const DeviceSummary& device : summary.devices)
    record.devices.push_back(
        {device.ordinal, device.uuid, device.name, device.total_bytes, {}, {}, {}, {}});
  if (whole != nullptr) *whole = std::move(summary);
  return record;
}

ProcessRecord read_process(const std::string& path, const Reading& reading,
                           const Progress& progress) {
  Options options;
  options.reading = reading;
  options.stacks = false;
  options.top = kSites;
  const LogReader log(path, reading.sanitizer, reading.heap);
  return read_process(log, options, progress, nullptr);
}

/// If steps must be joined: first those that differ by less than this part of the peak, then by
/// less than twice as much, and so on.
constexpr uint64_t kFinest = 4096;

void StepList::add(uint64_t ns, uint64_t bytes) {
  if (bytes == last_bytes_) return;
  put(ns - last_ns_);
  const auto change = static_cast<int64_t>(bytes - last_bytes_);
  put(protozero::encode_zigzag64(change));
  last_ns_ = ns;
  last_bytes_ = bytes;
}

void StepList::put(uint64_t value) {
  protozero::write_varint(std::back_inserter(data_), value);
}

bool StepList::Reader::next() {
  if (at_ == end_) return false;
  uint64_t step = 0;
  uint64_t coded = 0;
  at_ = read_varint(at_, end_, step);
  at_ = read_varint(at_, end_, coded);
  ns_ += step;
  grows_ = (coded & 1) == 0;
  bytes_ += static_cast<uint64_t>(protozero::decode_zigzag64(coded));
  return true;
}

void HeldCurve::add(uint64_t ns, uint64_t bytes) {
  last_ns_ = std::max(last_ns_, ns);
  peak_bytes_ = std::max(peak_bytes_, bytes);
  gather(last_ns_, bytes);
  if (steps_.coded_bytes() > kRoomBytes) coarsen(kRoomBytes / 2);
}

void HeldCurve::gather(uint64_t ns, uint64_t bytes) {
  if (bucket_) {
    const uint64_t least = std::min(bucket_->least, bytes);
    const uint64_t most = std::max(bucket_->most, bytes);
    if (most - least <= tolerance_) {
      bucket_ = {bucket_->ns, least, most};
      return;
    }
    steps_.add(bucket_->ns, bucket_->most);
  }
  bucket_ = {ns, bytes, bytes};
}

void HeldCurve::flush() {
  if (bucket_) steps_.add(bucket_->ns, bucket_->most);
  bucket_.reset();
}

void HeldCurve::coarsen(size_t room_bytes) {
  flush();
  while (steps_.coded_bytes() > room_bytes) {
    tolerance_ = std::max({2 * tolerance_, peak_bytes_ / kFinest, uint64_t{1}});
    error_bytes_ += tolerance_;
    const StepList finer = std::exchange(steps_, {});
    for (StepList::Reader step(finer); step.next();) gather(step.ns(), step.bytes());
    flush();
  }
}

}  // namespace gpupeak::collector
