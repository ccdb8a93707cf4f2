#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "collector/log/log_reader.h"
#include "collector/run/run_logs.h"
#include "collector/summary/run_text.h"
#include "collector/symbols/module_symbols.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/scope_key.h"

namespace gpupeak::collector {
namespace {

/// Counts of several processes are added up. If the sum of a figure at one instant is not known,
/// the largest process's figure stands for it: no process was above.
void fold(const Metrics& from, Metrics& into) {
  for (const auto& [name, value] : from) {
    const auto [entry, added] = into.try_emplace(name, value);
    if (added) continue;
    std::optional<uint64_t>& sum = entry->second;
    if (!name.ends_with("_count"))
      sum = std::max(sum, value);
    else if (sum && value)
      *sum += *value;
    else
      sum.reset();
  }
}

void set_sum(const WholeRun::Sum& sum, const std::string& side, Metrics& metrics) {
  metrics[side + ".peak_bytes"] = sum.peak_bytes;
  if (metrics.contains(side + ".sum_of_peaks_bytes"))
    metrics[side + ".sum_of_peaks_bytes"] = sum.sum_of_peaks_bytes;
}

/// Fills WholeRun::metrics from the metrics of the processes and from the sums.
void add_run_metrics(WholeRun& run) {
  for (const WholeRun::Process& process : run.processes) fold(process.metrics, run.metrics);
  if (!run.has_several()) return;
  if (run.all_devices)
    set_sum(*run.all_devices, "device", run.metrics);
  else if (run.devices.size() == 1)
    set_sum(run.devices.front(), "device", run.metrics);
  if (run.host) set_sum(*run.host, "host", run.metrics);
}

/// The lead's Summary with the run's metrics, GPUs and quality in place of the lead's; unchanged
/// for a process alone.
Summary figures_of_run(Summary lead) {
  if (!lead.whole_run || !lead.whole_run->has_several()) return lead;
  const WholeRun& run = *lead.whole_run;
  lead.metrics = run.metrics;
  lead.devices.clear();
  for (size_t i = 0; i < run.devices.size(); ++i) {
    const WholeRun::Sum& sum = run.devices[i];
    DeviceSummary& device = lead.devices.emplace_back();
    device.ordinal = sum.ordinal.value_or(static_cast<int32_t>(i));
    device.uuid = sum.uuid;
    device.name = sum.name;
    device.total_bytes = sum.total_bytes;
    for (const WholeRun::Process& process : run.processes) {
      for (const WholeRun::OfDevice& held : process.devices) {
        if (held.device == i) fold(held.metrics, device.metrics);
      }
    }
    set_sum(sum, "device", device.metrics);
  }
  for (const WholeRun::Process& process : run.processes) {
    lead.quality.exact &= process.exact;
    lead.quality.events_lost |= process.events_lost;
    lead.quality.log_complete &= process.complete;
  }
  return lead;
}

bool uses_gpu(const RunLog& log) {
  return std::ranges::any_of(log.head.counters.device,
                             [](const auto& device) { return device.total.peak > 0; });
}

std::optional<uint64_t> unless_zero(uint64_t value) {
  return value == 0 ? std::nullopt : std::optional(value);
}

/// The record of a process of whose log only the first pages are read.
ProcessRecord counted_process(const RunLog& log, const Sanitizer& sanitizer) {
  const gpupeak_file_header& header = log.head.header;
  const LogReader reader(log.path, sanitizer);
  ProcessRecord record = identity_of(reader, log.path);
  record.run = run_of(reader);
  record.last_ns = header.start_monotonic_ns;
  const gpupeak_counters_page& page = log.head.counters;
  record.end_ns = page.ended != 0 ? page.end_monotonic_ns : page.exit_monotonic_ns;
  record.quality.exact = page.dropped_events == 0;
  record.quality.dropped_events = page.dropped_events;
  record.quality.events_lost = page.dropped_events > 0;
  record.quality.log_complete = page.ended != 0 || page.exit_kind == GPUPEAK_EXIT_CODE;
  if (!record.quality.log_complete)
    record.quality.log_end = page.exit_kind == GPUPEAK_EXIT_SIGNAL      ? LogEnd::kKilled
                             : state_of(log.head) == LogState::kRunning ? LogEnd::kRunning
                                                                        : LogEnd::kUnknown;
  return record;
}

class RunAnalysis {
 public:
  RunAnalysis(const RunLogs& run, const Options& options, RunDepth depth, const Progress& progress)
      : run_(run), options_(options), progress_(progress), lead_(run.lead()) {
    // The processes of a run load the same libraries, so each library is read once.
    if (!options_.reading.search.cache)
      options_.reading.search.cache = std::make_shared<ModuleCache>();
    for (const RunLog& log : run.logs) gpu_processes_ += uses_gpu(log);
    all_ = depth == RunDepth::kAll;
    if (gpu_processes_ == 0) least_read_ = least_worth_reading();
    if (gpu_processes_ == 1) least_read_ = most_beside();
  }

  Summary make() {
    WholeRun whole;
    Metrics resident;
    whole.lost_logs = run_.lost;
    if (run_.logs.size() == 1) {
      lead_summary_ = analyze(run_.logs.front().path, options_, progress_);
      add_outside_look(run_, run_.logs.front(), lead_summary_.metrics);
      if (!run_.record && run_.lost == 0) return std::move(lead_summary_);
      note_gone(lead_summary_.quality, lead_summary_.run.end, run_.logs.front());
      read_.emplace(run_.logs.front().head.header.cookie, &lead_summary_);
      add_alone(whole);
    } else {
      std::vector<ProcessRecord> records = read_all();
      const Merged merged = merge(std::move(records));
      add_processes(merged, whole);
      add_sums(merged, whole);
      resident = resident_of(merged);
    }
    add_record(whole);
    whole.log = options_.reading.sanitizer.text(run_.name);
    order(whole);
    if (all_) add_run_metrics(whole);
    if (whole.has_several()) {  // one process's figure does not stand for all
      const bool seen = run_.record && run_.record->together;
      whole.metrics["host.pss.peak_bytes"] =
          seen ? std::optional(run_.record->together->pss_bytes) : std::nullopt;
      for (const auto& [name, bytes] : resident) whole.metrics[name] = bytes;
    }
    mark_own_processes(whole);
    lead_summary_.whole_run = std::move(whole);
    lead_summary_.log_path = options_.reading.sanitizer.text(run_.name);
    return std::move(lead_summary_);
  }

  /// Of all processes that were read but the lead. Call it after make().
  std::deque<Summary>& others() { return others_; }

 private:
  /// Says which of those that the lead saw on a card are processes of the run, too. Where /proc
  /// does not show their names, NVML counts them otherwise than the logs do.
  void mark_own_processes(const WholeRun& whole) {
    const auto mark = [&whole](LedgerView& view) {
      for (LedgerProcess& other : view.others)
        other.of_run =
            !other.name.empty() && std::ranges::any_of(whole.processes, [&](const auto& process) {
              return process.pid == other.pid;
            });
    };
    for (DeviceSummary& device : lead_summary_.devices) {
      if (!device.ledger) continue;
      mark(device.ledger->at_peak);
      mark(device.ledger->at_exit);
    }
    for (OutOfMemory& oom : lead_summary_.oom)
      if (oom.ledger) mark(*oom.ledger);
  }

  /// For a run without a GPU: a process that held less than this is not read.
  uint64_t least_worth_reading() const {
    constexpr size_t kMost = 8;  // the number of rows on the first screen
    auto held = list_of(run_.logs, [&](const RunLog& log) { return run_.host_bytes(log); });
    std::sort(held.rbegin(), held.rend());
    return std::max<uint64_t>(held[std::min(kMost, held.size()) - 1], 1);
  }

  /// For a run with one process that uses a GPU: the most that another held of the host, if that is
  /// worth words. It may be a worker that loads data, and grows.
  uint64_t most_beside() const {
    constexpr uint64_t kLeast = 16 << 20, kShare = 8;
    uint64_t most = 0;
    for (const RunLog& log : run_.logs)
      if (&log != &run_.logs[lead_]) most = std::max(most, run_.host_bytes(log));
    const uint64_t least = std::max(kLeast, run_.host_bytes(run_.logs[lead_]) / kShare);
    return most < least ? UINT64_MAX : most;
  }

  /// Whether a process is read; of others only the counters are taken.
  bool is_read(const RunLog& log) const {
    return all_ || (gpu_processes_ > 1 && uses_gpu(log)) || run_.host_bytes(log) >= least_read_;
  }

  std::vector<ProcessRecord> read_all() {
    std::vector<ProcessRecord> records;
    for (size_t i = 0; i < run_.logs.size(); ++i) {
      const RunLog& log = run_.logs[i];
      if (i == lead_) {
        records.push_back(read_lead(log));
        continue;
      }
      try {
        records.push_back(is_read(log) ? read_other(log)
                                       : counted_process(log, options_.reading.sanitizer));
      } catch (const LogError&) {
        ++lost_;
        continue;
      }
      records.back().log_path = shown(log.path);
      records.back().note_resident(
          {{"host.rss.peak_bytes", unless_zero(run_.resident_bytes(log))}});
    }
    for (ProcessRecord& record : records)
      note_gone(record.quality, record.run.end, log_of(record.id));
    note_gone(lead_summary_.quality, lead_summary_.run.end, run_.logs[lead_]);
    return records;
  }

  void note_gone(Quality& quality, const RunEnd& end, const RunLog& log) const {
    if (run_.record) note_end_of_run(is_started(log.head), end, quality);
  }

  std::string shown(const std::string& path) const { return options_.reading.sanitizer.text(path); }

  ProcessRecord read_lead(const RunLog& log) {
    ProcessRecord record;
    if (is_read(log)) {
      LogReader reader(log.path, options_.reading.sanitizer, options_.reading.heap);
      record = read_process(reader, options_, progress_, &lead_summary_);
      if (options_.complete != nullptr)
        options_.complete(lead_summary_, reader, options_, progress_);
    } else {
      lead_summary_ = analyze(log.path, options_, progress_);
      record = counted_process(log, options_.reading.sanitizer);
      record.quality = lead_summary_.quality;
    }
    add_outside_look(run_, log, lead_summary_.metrics);
    record.note_resident(lead_summary_.metrics);
    read_.emplace(record.id, &lead_summary_);
    return record;
  }

  ProcessRecord read_other(const RunLog& log) {
    Options options = options_;
    options.stacks = false;
    options.process_ends = false;
    Summary summary;
    const LogReader reader(log.path, options.reading.sanitizer, options.reading.heap);
    ProcessRecord record = read_process(reader, options, progress_, &summary);
    add_outside_look(run_, log, summary.metrics);
    record.note_resident(summary.metrics);
    read_.emplace(record.id, &others_.emplace_back(std::move(summary)));
    return record;
  }

  const RunLog& log_of(uint64_t id) const {
    return *std::ranges::find_if(run_.logs,
                                 [id](const RunLog& log) { return log.head.header.cookie == id; });
  }

  /// What is known of every process, read or not.
  WholeRun::Process process_of(const ProcessRecord& record, int64_t begin_ns) const {
    const RunLog& log = log_of(record.id);
    const gpupeak_counters_page& page = log.head.counters;
    WholeRun::Process process;
    process.log = shown(log.path);
    process.pid = record.run.pid;
    // The name without a process id means the whole run.
    if (log.path == run_.name && run_.logs.size() > 1)
      process.log += fmt::format("#{}", process.pid);
    process.rank = record.run.rank;
    process.program = record.program();
    process.started = is_started(log.head);
    process.end = record.run.end;
    process.begin_ns = begin_ns;
    process.rss_peak_bytes = unless_zero(run_.resident_bytes(log));
    process.heap_peak_bytes = unless_zero(page.heap.peak);
    process.forked = (log.head.header.flags & GPUPEAK_FLAG_FORKED) != 0;
    // If the heap is only estimated or counted, nothing was lost.
    process.exact = record.quality.exact ||
                    (record.quality.only_heap_inexact && record.quality.dropped_events == 0);
    process.events_lost = record.quality.events_lost;
    process.complete = record.quality.log_complete;
    process.losses = losses_text(record.quality);
    const auto read = read_.find(record.id);
    if (read == read_.end()) return process;
    const Summary& summary = *read->second;
    process.host_peak_bytes = metric(summary.metrics, "host.peak_bytes");
    process.metrics = summary.metrics;
    const auto seen_itself = metric(summary.metrics, "host.rss.peak_bytes");
    process.rss_peak_bytes = std::max(process.rss_peak_bytes, seen_itself);
    const Peak* most = largest_device_peak(summary);
    if (most == nullptr) most = summary.find_peak("host");
    if (most == nullptr || most->holders.empty()) return process;
    const Holder& row = *rows_by_resident(*most, summary.metrics).front();
    process.holder = row.title;
    process.holder_bytes = row.bytes;
    process.growth = summary.growth;
    return process;
  }

  void add_alone(WholeRun& whole) const {
    const RunLog& log = run_.logs.front();
    ProcessRecord record;
    record.id = log.head.header.cookie;
    record.run = lead_summary_.run;
    record.quality = lead_summary_.quality;
    WholeRun::Process& process = whole.processes.emplace_back(process_of(record, 0));
    add_own_devices(lead_summary_, 0, whole, process);
  }

  /// If only one process used GPUs: what it held is what the run held.
  static void add_own_devices(const Summary& summary, int64_t begin_ns, WholeRun& whole,
                              WholeRun::Process& process) {
    for (const DeviceSummary& device : summary.devices) {
      const Peak* peak = summary.find_peak(ScopeKey::device(device.ordinal).text());
      if (peak == nullptr) continue;
      WholeRun::Sum& sum = whole.devices.emplace_back();
      sum.name = device_text(device);
      sum.uuid = device.uuid;
      sum.ordinal = device.ordinal;
      sum.total_bytes = device.total_bytes;
      sum.peak_bytes = sum.sum_of_peaks_bytes = peak->bytes;
      sum.error_bytes = 0;
      sum.peak_time_ns = begin_ns + peak->time_ns;
      process.devices.push_back(
          {whole.devices.size() - 1, peak->bytes, peak->bytes, device.metrics});
    }
    if (whole.devices.empty()) return;
    const Peak* all = summary.find_peak("device");
    process.device_peak_bytes = all != nullptr ? all->bytes : whole.devices.front().peak_bytes;
    if (all == nullptr) return;
    WholeRun::Sum sum;
    sum.name = "all GPUs";
    sum.peak_bytes = sum.sum_of_peaks_bytes = all->bytes;
    sum.error_bytes = 0;
    sum.peak_time_ns = begin_ns + all->time_ns;
    whole.all_devices = std::move(sum);
  }

  /// What was resident of all processes at once and is their own.
  Metrics resident_of(const Merged& merged) const {
    const uint64_t at_look =
        run_.record && run_.record->together ? run_.record->together->own_bytes : 0;
    std::optional<uint64_t> seen, most;
    for (const MergedNode& node : merged.nodes) {
      const MergedSum* sum = node.find_sum(kResidentScope);
      if (sum == nullptr) continue;
      seen = std::max({seen.value_or(0), *sum->peak_bytes - *sum->error_bytes, at_look});
      most = most.value_or(0) + *sum->peak_bytes;
    }
    return {{"host.memory.seen_bytes", seen}, {"host.memory.peak_bytes", std::max(seen, most)}};
  }

  void add_processes(const Merged& merged, WholeRun& whole) const {
    const JobClock clock(merged);
    for (size_t i = 0; i < merged.processes.size(); ++i) {
      const ProcessRecord& record = merged.processes[i];
      whole.processes.push_back(
          process_of(record, clock.job_ns(merged.node_of[i], record.start_monotonic_ns)));
    }
  }

  const Metrics& device_metrics(uint64_t id, const std::string& uuid) const {
    static const Metrics kNone;
    const auto read = read_.find(id);
    if (read == read_.end()) return kNone;
    for (const DeviceSummary& device : read->second->devices) {
      if (device.uuid == uuid) return device.metrics;
    }
    return kNone;
  }

  void add_sums(const Merged& merged, WholeRun& whole) const {
    if (!all_ && gpu_processes_ <= 1) {
      for (size_t i = 0; i < merged.processes.size(); ++i) {
        if (merged.processes[i].id == run_.logs[lead_].head.header.cookie)
          add_own_devices(lead_summary_, whole.processes[i].begin_ns, whole, whole.processes[i]);
      }
      return;
    }
    for (const MergedNode& node : merged.nodes) {
      for (const MergedSum& sum : node.sums) add_sum(merged, node, sum, whole);
    }
    tell_apart(whole);
  }

  void add_sum(const Merged& merged, const MergedNode& node, const MergedSum& merged_sum,
               WholeRun& whole) const {
    WholeRun::Sum sum = merged_sum;
    const bool several = merged.nodes.size() > 1;
    if (several) sum.node = node.name();
    if (merged_sum.scope == kResidentScope) return;
    if (merged_sum.scope == "host") {
      if (!several) whole.host = sum;
      return;
    }
    if (merged_sum.scope == "device") {
      for (const MergedPart& part : merged_sum.parts)
        whole.processes[part.process].device_peak_bytes = part.peak_bytes;
      if (!several) whole.all_devices = sum;
      return;
    }
    for (const MergedPart& part : merged_sum.parts) {
      const ProcessRecord& record = merged.processes[part.process];
      for (const DeviceSummary& device : record.devices) {
        if (device.uuid != merged_sum.uuid) continue;
        sum.total_bytes = device.total_bytes;
        if (!sum.ordinal) sum.ordinal = device.ordinal;
      }
      WholeRun::Process& process = whole.processes[part.process];
      process.devices.push_back({whole.devices.size(), part.peak_bytes.value_or(0),
                                 part.at_peak_bytes, device_metrics(record.id, merged_sum.uuid)});
      if (!process.device_peak_bytes) process.device_peak_bytes = part.peak_bytes;
    }
    whole.devices.push_back(std::move(sum));
  }

  /// Each process has its own numbers for GPUs (CUDA_VISIBLE_DEVICES). If two GPUs of the run have
  /// the same number, both are named by their UUIDs.
  static void tell_apart(WholeRun& whole) {
    std::map<std::string, size_t> named;
    for (const WholeRun::Sum& device : whole.devices) ++named[device.node + "\n" + device.name];
    for (WholeRun::Sum& device : whole.devices) {
      constexpr size_t kUuidFront = 12;  // "GPU-" and eight digits
      if (named[device.node + "\n" + device.name] < 2 || device.uuid.empty()) continue;
      const size_t model = device.name.find(" (");
      device.name = device.uuid.substr(0, kUuidFront) +
                    (model == std::string::npos ? "" : device.name.substr(model));
    }
  }

  void add_record(WholeRun& whole) const {
    whole.lost_logs += lost_;
    if (!run_.record) return;
    const Sanitizer& sanitizer = options_.reading.sanitizer;
    whole.is_recorded = true;
    whole.watched = run_.record->descendants_watched;
    for (const RunRecord::Unrecorded& seen : run_.record->unrecorded) {
      std::vector<WholeRun::NotRecorded::Held> held;
      for (const RunRecord::OfDevice& device : seen.devices)
        held.push_back({name_of(device, whole), escape(device.uuid), device.bytes});
      whole.not_recorded.push_back({seen.pid, sanitizer.text(seen.name),
                                    sanitizer.is_confidential() ? "" : escape(seen.why),
                                    seen.used_gpu, seen.went_on, seen.rss_bytes, std::move(held)});
    }
    std::ranges::stable_sort(whole.not_recorded, std::greater(), &WholeRun::NotRecorded::used_gpu);
    if (const RunRecord::Small& small = run_.record->small; small.count > 0)
      whole.small = {small.count, sanitizer.text(small.largest), small.rss_bytes};
    if (const uint64_t bytes = run_.record->unseen_rss_bytes; bytes != 0)
      whole.unseen_rss_bytes = bytes;
    for (const RunRecord::LeftRunning& left : run_.record->left_running) add_left(left, whole);
    if (run_.record->memory_kill) {
      const RunRecord::MemoryKill& kill = *run_.record->memory_kill;
      whole.memory_kill = {kill.likely, kill.limit_bytes, sanitizer.text(kill.cgroup), kill.kills,
                           kill.started_process};
    }
  }

  /// Adds a process that `run` left behind, if it still runs. If it has ended since, its log says
  /// so, or it left none.
  void add_left(const RunRecord::LeftRunning& left, WholeRun& whole) const {
    const auto known = std::ranges::find_if(run_.logs, [&](const RunLog& log) {
      return log.head.header.pid == left.pid &&
             log.head.header.process_start_time == left.start_time;
    });
    const bool has_log = known != run_.logs.end();
    const LogState state = has_log ? state_of(known->head) : LogState::kElsewhere;
    const bool runs = state == LogState::kRunning ||
                      (state == LogState::kElsewhere &&
                       may_be_running(run_.logs.front().head.header, left.pid, left.start_time));
    if (!runs) return;
    std::string log;
    if (has_log) log = fmt::format("{}#{}", shown(run_.name), left.pid);
    const Sanitizer& sanitizer = options_.reading.sanitizer;
    whole.still_running.push_back(
        {left.pid, sanitizer.text(left.name), log,
         sanitizer.is_confidential() || has_log ? "" : escape(left.why),
         resident_bytes(run_.logs.front().head.header, left.pid, left.start_time)});
  }

  static std::string name_of(const RunRecord::OfDevice& device, const WholeRun& whole) {
    for (const WholeRun::Sum& known : whole.devices) {
      if (known.uuid == device.uuid) return known.name.substr(0, known.name.find(" ("));
    }
    return fmt::format("GPU {}", device.index);
  }

  /// Processes that held most come first, a launcher (started, without a GPU) last.
  void order(WholeRun& whole) const {
    const uint32_t lead = run_.logs[lead_].head.header.pid;
    const auto key = [](const WholeRun::Process& process) {
      const uint64_t gpus = process.device_peak_bytes.value_or(0);
      return std::tuple(process.started && gpus == 0, UINT64_MAX - gpus,
                        UINT64_MAX - process.rss_peak_bytes.value_or(0));
    };
    std::ranges::stable_sort(whole.processes, {}, key);
    for (size_t i = 0; i < whole.processes.size(); ++i) {
      if (whole.processes[i].pid == lead) whole.lead = i;
    }
  }

  const RunLogs& run_;
  Options options_;
  const Progress& progress_;
  const size_t lead_;
  bool all_ = false;
  size_t gpu_processes_ = 0;
  uint64_t least_read_ = UINT64_MAX;
  size_t lost_ = 0;
  Summary lead_summary_;
  std::deque<Summary> others_;               // of the other processes that were read
  std::map<uint64_t, const Summary*> read_;  // by the log's random number
};

}  // namespace

Summary analyze_run(const RunLogs& run, const Options& options, RunDepth depth,
                    const Progress& progress) {
  return RunAnalysis(run, options, depth, progress).make();
}

Summary load_run_figures(const std::string& name, const Options& options,
                         const Progress& progress) {
  if (begins_like_json(name)) return figures_of_run(load_summary(name, options, progress));
  const RunLogs run = logs_of_run(name);
  RunAnalysis analysis(run, options, RunDepth::kAll, progress);
  Summary lead = analysis.make();
  for (Summary& other : analysis.others())
    std::ranges::move(other.phases, std::back_inserter(lead.phases));
  return figures_of_run(std::move(lead));
}

}  // namespace gpupeak::collector
