#include "collector/merge/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <tuple>
#include <utility>

#include "collector/merge/merged.h"
#include "collector/merge/nodes.h"
#include "collector/merge/read_process.h"
#include "collector/merge/record_json.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"

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
  std::sort(end.casualties.begin(), end.casualties.end(), [](const Casualty& a, const Casualty& b) {
    return std::tuple(a.time_ns, a.process) < std::tuple(b.time_ns, b.process);
  });
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

bool comes_first(const ProcessRecord& a, const ProcessRecord& b) {
  const auto key = [](const ProcessRecord& record) {
    return std::tuple(!record.run.rank.has_value(), record.run.rank.value_or(0),
                      record.start_realtime_ns, record.run.host, record.run.pid, record.id);
  };
  return key(a) < key(b);
}

void note_missing_ends(Merged& merged) {
  constexpr size_t kMostNamed = 4;
  std::vector<const ProcessRecord*> open;
  for (const ProcessRecord& process : merged.processes) {
    if (process.end_ns == 0) open.push_back(&process);
  }
  for (size_t i = 0; i < std::min(open.size(), kMostNamed); ++i) {
    merged.notes.push_back(
        fmt::format("{} has no end: what the process held last is counted to the end of all",
                    open[i]->log_path));
  }
  if (open.size() > kMostNamed)
    merged.notes.push_back(fmt::format("so have {} more", open.size() - kMostNamed));
}

}  // namespace

void ProcessSet::add_log(const std::string& path, const Reading& reading,
                         const Progress& progress) {
  ProcessRecord record = read_process(path, reading, progress);
  const auto known = records_.find(record.id);
  if (known != records_.end() && known->second.is_log)
    throw UsageError(escape(path) + " is given twice");
  add(std::move(record), true);
}

void ProcessSet::add(ProcessRecord record) {
  add(std::move(record), false);
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
  for (auto& [id, known] : records_) records.push_back(std::move(known.record));
  records_.clear();
  std::sort(records.begin(), records.end(), comes_first);
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

Merged merge_logs(const std::vector<std::string>& paths, const Reading& reading,
                  const Progress& progress) {
  ProcessSet set;
  for (const std::string& path : paths) set.add_log(path, reading, progress);
  return merge(set.take());
}

}  // namespace gpupeak::collector
