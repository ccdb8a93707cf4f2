#include "collector/analyze/process_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <queue>

#include "collector/analyze/analyze.h"
#include "collector/log/byte_reader.h"
#include "collector/log/coverage.h"
#include "collector/log/log_reader.h"
#include "collector/replay/replay.h"
#include "collector/summary/run_text.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

/// Of logs that do not name their boot: how far apart two logs of one boot may put it.
constexpr uint64_t kSameBootNs = 2'000'000'000;

/// A sum of one process over time, a few bytes a step.
class Steps {
 public:
  void add(uint64_t ns, uint64_t bytes) {
    if (bytes == last_bytes_) return;
    put(ns - last_ns_);
    const auto change = static_cast<int64_t>(bytes - last_bytes_);
    put((static_cast<uint64_t>(change) << 1) ^ static_cast<uint64_t>(change >> 63));
    last_ns_ = ns;
    last_bytes_ = bytes;
  }

  class Reader {
   public:
    explicit Reader(const Steps& steps) : at_(steps.data_.data()), end_(at_ + steps.data_.size()) {}
    bool next() {
      if (at_ == end_) return false;
      uint64_t step = 0;
      uint64_t coded = 0;
      at_ = read_varint(at_, end_, step);
      at_ = read_varint(at_, end_, coded);
      ns_ += step;
      grows_ = (coded & 1) == 0;
      bytes_ += (coded >> 1) ^ (0 - (coded & 1));
      return true;
    }
    uint64_t ns() const { return ns_; }
    uint64_t bytes() const { return bytes_; }
    bool grows() const { return grows_; }

   private:
    const uint8_t* at_;
    const uint8_t* end_;
    uint64_t ns_ = 0, bytes_ = 0;
    bool grows_ = false;
  };

 private:
  void put(uint64_t value) {
    for (; value >= 0x80; value >>= 7) data_.push_back(static_cast<uint8_t>(value) | 0x80);
    data_.push_back(static_cast<uint8_t>(value));
  }

  std::vector<uint8_t> data_;
  uint64_t last_ns_ = 0, last_bytes_ = 0;
};

struct Timeline {
  Steps steps;
  uint64_t peak_bytes = 0;
  bool coarse = false;

  /// Device events have times of their own. Of a process with one thread only each 32nd heap event
  /// has: the others happened between its time and the next one's. Their largest value stands for
  /// all of it.
  void add(uint64_t ns, uint64_t bytes) {
    if (!coarse) return steps.add(ns, bytes);
    if (ns != stamp_ns_) steps.add(ns, last_bytes_);
    largest_bytes_ = std::max(bytes, ns != stamp_ns_ ? last_bytes_ : largest_bytes_);
    steps.add(ns, largest_bytes_);
    stamp_ns_ = ns;
    last_bytes_ = bytes;
  }

 private:
  uint64_t stamp_ns_ = 0, last_bytes_ = 0, largest_bytes_ = 0;
};

/// What is kept of one log.
struct Process {
  gpupeak_file_header header{};
  std::string boot;
  std::string host;
  uint64_t end_ns = 0;  ///< 0: not known
  uint64_t last_ns = 0;
  bool host_measured = false;
  std::vector<DeviceSummary> devices;         ///< without metrics
  std::map<std::string, Timeline> timelines;  ///< by the process's own scope

  /// When the machine was started, on the clock of the calendar.
  uint64_t boot_realtime_ns() const { return header.start_realtime_ns - header.start_monotonic_ns; }
};

/// Notes how the sums change.
class SumsOverTime : public ReplayObserver {
 public:
  explicit SumsOverTime(Process& process) : process_(process) {}

  void after(const Event& event) override {
    find_new_scopes();
    const int64_t since_start = replay().log().clock().to_ns(event.ticks);
    const uint64_t ns = process_.header.start_monotonic_ns + static_cast<uint64_t>(since_start);
    process_.last_ns = ns;
    for (const auto& [scope, timeline] : watched_) {
      const PeakFinder::Scope& sum = replay().peaks().scope(scope);
      timeline->add(ns, sum.current);
      timeline->peak_bytes = sum.peak;
    }
  }

 private:
  /// Sums of all kinds; those of one kind are not merged.
  void find_new_scopes() {
    const std::vector<ScopeInfo>& scopes = replay().sites().scopes();
    for (; seen_ < scopes.size(); ++seen_) {
      if (scopes[seen_].kind != 0 || scopes[seen_].name == "total") continue;
      Timeline& timeline = process_.timelines[scopes[seen_].name];
      timeline.coarse = scopes[seen_].name == "host";
      watched_.emplace_back(static_cast<ScopeId>(seen_), &timeline);
    }
  }

  Process& process_;
  size_t seen_ = 0;
  std::vector<std::pair<ScopeId, Timeline*>> watched_;
};

class Merger {
 public:
  Merger(const std::vector<std::string>& paths, const Reading& reading, const Progress& progress) {
    for (const std::string& path : paths) read(path, reading, progress);
    end_by_exec();
    find_clock();
    for (size_t i = 0; i < processes_.size(); ++i) note_end(i);
    add_devices();
    add_sum("device", "all GPUs", "", scopes_named("device"));
    add_sum("host", "host", "", scopes_named("host"));
    const auto devices = std::count_if(merged_.sums.begin(), merged_.sums.end(), [](const auto& s) {
      return s.scope.starts_with("device:");
    });
    if (devices == 1) {  // it repeats the one device
      std::erase_if(merged_.sums, [](const MergedSum& sum) { return sum.scope == "device"; });
    }
  }
  Merged take() { return std::move(merged_); }

 private:
  using Scopes = std::map<size_t, std::string>;  // process → its own name for the sum

  void read(const std::string& path, const Reading& reading, const Progress& progress) {
    const LogReader log(path, reading.sanitizer);
    for (const Process& other : processes_) {
      if (other.header.cookie == log.header().cookie) {
        throw UsageError(escape(path) + " is given twice");
      }
    }
    Process& process = processes_.emplace_back();
    process.header = log.header();
    Options options;
    options.reading = reading;
    options.reading.search.files = options.stacks = false;
    options.top = 1;
    SumsOverTime sums(process);
    const Summary summary = analyze(log, path, options, progress, &sums);
    merged_.processes.push_back({summary.log_path, summary.run, summary.quality});
    process.boot = std::string(log.definitions().fact("boot"));
    process.host = std::string(log.definitions().fact("host"));
    process.devices = summary.devices;
    process.host_measured = coverage_of(log).host();
    if (log.counters().ended != 0) {
      process.end_ns = std::max(log.counters().end_monotonic_ns, process.last_ns);
    }
  }

  /// After exec the memory of the program before is gone, though its log has no end.
  void end_by_exec() {
    for (Process& process : processes_) {
      for (const Process& next : processes_) {
        const bool same = next.header.pid == process.header.pid &&
                          next.header.process_start_time == process.header.process_start_time;
        const uint64_t began = next.header.start_monotonic_ns;
        if (!same || began <= process.header.start_monotonic_ns) continue;
        if (process.end_ns == 0 || began < process.end_ns) process.end_ns = began;
      }
    }
  }

  void find_clock() {
    const Process& first = processes_.front();
    for (size_t i = 1; i < processes_.size(); ++i) {
      const Process& other = processes_[i];
      std::string& reason = merged_.no_common_clock;
      if (!first.boot.empty() && !other.boot.empty()) {
        if (first.boot == other.boot) continue;
        reason = "the logs are of several hosts or boots";
      } else if (first.host != other.host) {
        reason = "the logs are of several hosts";
      } else {
        const auto apart =
            static_cast<int64_t>(first.boot_realtime_ns() - other.boot_realtime_ns());
        const bool near =
            apart < static_cast<int64_t>(kSameBootNs) && apart > -static_cast<int64_t>(kSameBootNs);
        if (near) continue;
        reason = "the logs do not say that they are of one boot";
      }
      return;
    }
  }

  void note_end(size_t index) {
    Process& process = processes_[index];
    if (process.end_ns == 0) {
      merged_.notes.push_back(
          fmt::format("{} has no end: what the process held last is counted to the end of all",
                      merged_.processes[index].log_path));
      return;
    }
    for (auto& [scope, timeline] : process.timelines)
      timeline.steps.add(std::max(process.end_ns, process.last_ns), 0);
  }

  void add_devices() {
    struct Device {
      const DeviceSummary* first;
      Scopes scopes;
    };
    std::map<std::string, Device> devices;
    std::vector<std::string> order;
    for (size_t i = 0; i < processes_.size(); ++i) {
      for (const DeviceSummary& device : processes_[i].devices) {
        const std::string scope = fmt::format("device:{}", device.ordinal);
        const std::string key =
            device.uuid.empty() ? processes_[i].host + "\n" + scope : device.uuid;
        const auto [entry, added] = devices.try_emplace(key, Device{&device, {}});
        if (added) order.push_back(key);
        entry->second.scopes[i] = scope;
      }
    }
    for (const std::string& key : order) {
      const Device& device = devices.at(key);
      add_sum(fmt::format("device:{}", device.first->ordinal), device_text(*device.first),
              device.first->uuid, device.scopes);
    }
  }

  Scopes scopes_named(const std::string& scope) const {
    Scopes scopes;
    for (size_t i = 0; i < processes_.size(); ++i) scopes[i] = scope;
    return scopes;
  }

  void add_sum(const std::string& scope, const std::string& name, const std::string& uuid,
               const Scopes& scopes) {
    MergedSum sum{scope, name, uuid, 0, std::nullopt, 0, {}};
    std::vector<const Timeline*> timelines;
    for (const auto& [index, own_scope] : scopes) {
      const Process& process = processes_[index];
      const auto known = process.timelines.find(own_scope);
      static const Timeline kNothing;
      const Timeline& timeline = known == process.timelines.end() ? kNothing : known->second;
      MergedPart part{index, timeline.peak_bytes, std::nullopt};
      if (scope == "host" && !process.host_measured) {
        part.peak_bytes = std::nullopt;
        sum.sum_of_peaks_bytes = std::nullopt;
      }
      if (sum.sum_of_peaks_bytes) *sum.sum_of_peaks_bytes += timeline.peak_bytes;
      if (timeline.peak_bytes == 0 && part.peak_bytes) continue;
      sum.parts.push_back(part);
      timelines.push_back(&timeline);
    }
    if (sum.parts.empty()) return;
    if (merged_.no_common_clock.empty() && sum.sum_of_peaks_bytes) find_peak(sum, timelines);
    merged_.sums.push_back(std::move(sum));
  }

  /// Steps of all processes in the order of their times; at one time those that shrink first.
  void find_peak(MergedSum& sum, const std::vector<const Timeline*>& timelines) const {
    std::vector<Steps::Reader> readers;
    const auto later = [&](size_t a, size_t b) {
      if (readers[a].ns() != readers[b].ns()) return readers[a].ns() > readers[b].ns();
      return readers[a].grows() && !readers[b].grows();
    };
    for (const Timeline* timeline : timelines) readers.emplace_back(timeline->steps);
    std::priority_queue<size_t, std::vector<size_t>, decltype(later)> next(later);
    for (size_t i = 0; i < readers.size(); ++i) {
      if (readers[i].next()) next.push(i);
    }
    std::vector<uint64_t> held(readers.size());
    uint64_t all = 0;
    uint64_t peak = 0;
    uint64_t peak_ns = 0;
    std::vector<uint64_t> at_peak = held;
    while (!next.empty()) {
      const size_t i = next.top();
      next.pop();
      all += readers[i].bytes() - held[i];
      held[i] = readers[i].bytes();
      if (all > peak) {
        peak = all;
        peak_ns = readers[i].ns();
        at_peak = held;
      }
      if (readers[i].next()) next.push(i);
    }
    sum.peak_bytes = peak;
    for (size_t i = 0; i < readers.size(); ++i) sum.parts[i].at_peak_bytes = at_peak[i];
    uint64_t first_ns = UINT64_MAX;
    for (const Process& process : processes_) {
      first_ns = std::min(first_ns, process.header.start_monotonic_ns);
    }
    sum.peak_time_ns = static_cast<int64_t>(peak_ns - first_ns);
  }

  std::vector<Process> processes_;
  Merged merged_;
};

}  // namespace

Merged merge_processes(const std::vector<std::string>& paths, const Reading& reading,
                       const Progress& progress) {
  return Merger(paths, reading, progress).take();
}

}  // namespace gpupeak::collector
