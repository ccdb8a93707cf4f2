#include "collector/run/run_logs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>
#include <tuple>

#include "collector/analyze/summary_parts.h"
#include "collector/log/log_appender.h"
#include "collector/log/log_folder.h"
#include "collector/log/log_parts.h"
#include "collector/log/log_reader.h"
#include "collector/summary/run_text.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

/// Applies also to what the process saw itself: only from outside is it known which pages are
/// shared.
void name_inherited(const RunRecord::Resident& seen, Metrics& metrics) {
  const auto unexplained = metric(metrics, "host.resident.unexplained_bytes");
  if (!unexplained) return;
  const uint64_t inherited = std::min(*unexplained, seen.shared_anonymous_bytes);
  metrics["host.resident.inherited_bytes"] = inherited;
  metrics["host.resident.unexplained_bytes"] = *unexplained - inherited;
}

/// The most that is the process's own: by the look that leaves less of the kernel's maximum to
/// guess. Returns what this look saw.
uint64_t note_own_memory(const RunRecord::Resident& seen, Metrics& metrics) {
  const uint64_t beside = seen.files_bytes + seen.log_bytes + seen.own_bytes;
  const uint64_t own = seen.rss_bytes - std::min(seen.rss_bytes, beside);
  const uint64_t rss = std::max(metric(metrics, "host.rss.peak_bytes").value_or(0), seen.rss_bytes);
  auto& most_seen = metrics["host.memory.seen_bytes"];
  auto& peak = metrics["host.memory.peak_bytes"];
  most_seen = std::max(most_seen.value_or(0), own);
  const uint64_t estimate = rss - std::min(rss, beside);
  peak = std::max(*most_seen, std::min(peak.value_or(UINT64_MAX), estimate));
  return own;
}

/// `forked`: the process still runs its parent's program, so pages that it shares are its parent's.
void add_look(RunRecord::Resident seen, bool forked, Metrics& metrics) {
  const auto known = [&](const char* name) { return metric(metrics, name); };
  // What the library has for itself it knows when it looks itself, and that grows.
  const uint64_t gpupeaks = known("host.resident.gpupeak_bytes").value_or(0);
  seen.own_bytes =
      std::max(seen.own_bytes, gpupeaks - std::min<uint64_t>(gpupeaks, seen.log_bytes));
  const uint64_t own = note_own_memory(seen, metrics);
  if (known("host.resident.total_bytes") && own_when_looked_at(metrics) >= own) {
    if (forked) name_inherited(seen, metrics);
    return;
  }
  const auto mapped_at_most = known("host.kind.mmap_anon.peak_bytes");
  const bool heap_known =
      seen.heap_bytes && mapped_at_most && known("host.kind.heap.usable_peak_bytes");
  ResidentEvent event{};
  event.rss = seen.rss_bytes;
  event.files = seen.files_bytes;
  event.shared = seen.shared_bytes;
  event.driver = seen.driver_bytes;
  event.stacks = seen.stacks_bytes;
  event.log = seen.log_bytes;
  event.own = seen.own_bytes;
  event.heap = seen.heap_bytes.value_or(0);
  event.static_data = seen.static_data_bytes;
  event.written = seen.written_bytes;
  // The kernel does not say to whom anonymous memory belongs. It counts as kept by malloc only
  // where malloc puts its blocks. What another process shares was there before the fork.
  uint64_t left = seen.malloc_bytes + seen.anonymous_bytes;
  const auto take = [&left](uint64_t wanted) {
    const uint64_t taken = std::min(left, wanted);
    left -= taken;
    return taken;
  };
  for (const uint64_t part : {event.static_data, event.own, event.heap}) take(part);
  const uint64_t others_brk = std::min(seen.others_brk_bytes, seen.malloc_bytes);
  const uint64_t mappings = take(
      std::min(mapped_at_most.value_or(0), seen.anonymous_bytes - event.static_data + others_brk));
  if (forked) take(seen.shared_anonymous_bytes);
  event.free_in_malloc_plus_1 = std::min(left, seen.malloc_bytes - others_brk) + 1;
  add_resident(event, mappings, heap_known, metrics);
  if (forked) name_inherited(seen, metrics);
}

namespace fs = std::filesystem;

constexpr size_t kMostBeside = 10'000;  ///< so many files are looked at if no record names the logs

/// Reads regular files only: opening a pipe that a record names would wait.
std::optional<LogHead> head_of(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  try {
    return read_head(path);
  } catch (const LogError&) {
    return std::nullopt;
  }
}

std::string beside(const std::string& log, const fs::path& path) {
  return (fs::path(log).parent_path() / path).lexically_normal().string();
}

void add_recorded(RunLogs& run) {
  const std::string main = run.logs.front().path;
  for (const RunRecord::Log& log : run.record->logs) {
    if (log.path.empty() || log.id == run.logs.front().head.header.cookie) continue;
    const std::string path = beside(main, log.path);
    const std::optional<LogHead> head = head_of(path);
    if (head && head->header.cookie == log.id)
      run.logs.push_back({path, *head});
    else
      ++run.lost;
  }
}

/// Whether `other` is of the same run. Anybody who may write into the folder can put a log there
/// that claims to be. So it must have the run's secret number, and belong to the same user.
bool is_of_run(const LogHead& of_main, const LogHead& of_other) {
  const gpupeak_file_header &main = of_main.header, &other = of_other.header;
  return other.run_id == main.run_id && of_other.owner == of_main.owner &&
         other.run_pid == main.run_pid && other.cookie != main.cookie &&
         other.start_realtime_ns >= main.start_realtime_ns &&
         memcmp(other.boot_id, main.boot_id, sizeof main.boot_id) == 0 &&
         other.pid_namespace == main.pid_namespace;
}

bool is_known(const RunLogs& run, const LogHead& head) {
  return std::ranges::any_of(
      run.logs, [&](const RunLog& log) { return log.head.header.cookie == head.header.cookie; });
}

/// Looks for logs where `run` puts those of children. Needed if the run goes on, if `run` ended
/// before the run, or if it left processes behind, which may begin logs later.
void add_beside(RunLogs& run) {
  const RunLog main = run.logs.front();
  const std::string stem = fs::path(main.path).stem().string();
  size_t looked_at = 0;
  for (const std::string& folder :
       {stem + ".children", fmt::format("gpupeak.{}.children", main.head.header.ppid),
        std::string(".")}) {
    std::error_code error;
    const fs::path place = beside(main.path, folder);
    for (fs::directory_iterator entry(place.empty() ? "." : place, error), end;
         !error && entry != end && ++looked_at < kMostBeside; entry.increment(error)) {
      if (entry->path().extension() != ".gplog") continue;
      const std::string path = entry->path().lexically_normal().string();
      const std::optional<LogHead> head = head_of(path);
      if (head && is_of_run(main.head, *head) && !is_known(run, *head))
        run.logs.push_back({path, *head});
    }
  }
}

/// The log that stands for the run of a child's log: it lies beside the folder of children. Empty:
/// there is none.
std::string log_of_run(const std::string& child, const LogHead& head) {
  const fs::path folder = fs::absolute(child).lexically_normal().parent_path();
  if (folder.extension() != ".children") return "";
  const std::string named = folder.stem().string() + ".gplog";
  const std::string by_default = fmt::format(".{}.gplog", head.header.run_pid);
  std::error_code error;
  for (fs::directory_iterator entry(folder.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name != named && !name.ends_with(by_default)) continue;
    const std::optional<LogHead> main = head_of(entry->path().string());
    if (main && is_of_run(*main, head)) return entry->path().string();
  }
  return "";
}

/// The log of process 713 for "a.gplog#713"; none if the run has no such process.
std::optional<RunLogs> named_process(const std::string& name) {
  const PartName part = part_name(name);
  if (part.number == 0) return std::nullopt;
  RunLogs run = logs_of_run(part.log);
  if (LogReader(part.log).parts().size() >= part.number) return std::nullopt;
  for (RunLog& log : run.logs) {
    if (log.head.header.pid == part.number)
      return RunLogs{name, {std::move(log)}, std::nullopt, 0, std::move(run.resident)};
  }
  return std::nullopt;
}

uint64_t most_of_gpus(const LogHead& head) {
  return most_of(head.counters.device, [](const auto& device) { return device.total.peak; });
}

std::string program_of(const RunLog& log) {
  return read_facts(log.path, log.head).program;
}

bool is_process(const RunLog& log, const std::string& process) {
  constexpr std::string_view kRank = "rank:";
  const bool by_rank = process.starts_with(kRank);
  const std::string number = by_rank ? process.substr(kRank.size()) : process;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool is_number = error == std::errc() && end == number.data() + number.size();
  if (by_rank) return is_number && log.head.header.rank == value;
  if (is_number) return log.head.header.pid == value;
  return program_of(log) == process;
}

std::string who(const RunLog& log) {
  const gpupeak_file_header& header = log.head.header;
  return fmt::format("{}{} {}", header.rank >= 0 ? fmt::format("rank:{} ", header.rank) : "",
                     header.pid, escape(program_of(log)));
}

std::vector<RunLogs> runs_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const FolderLog& log : LogFolder(folder, SIZE_MAX).look().logs) paths.push_back(log.path);
  std::ranges::sort(paths);
  std::vector<RunLogs> runs;
  std::vector<RunLog> rest;
  std::set<uint64_t> tied;
  for (const std::string& path : paths) {
    const std::optional<LogHead> head = head_of(path);
    if (!head) continue;
    if (!is_started(*head) && !read_run_record(path)) {
      rest.push_back({path, *head});
      continue;
    }
    RunLogs& run = runs.emplace_back(logs_of_run(path));
    for (const RunLog& log : run.logs) tied.insert(log.head.header.cookie);
  }
  std::erase_if(rest, [&](const RunLog& log) { return tied.contains(log.head.header.cookie); });
  if (!rest.empty()) runs.push_back({folder, std::move(rest), std::nullopt, 0, {}});
  if (runs.empty()) throw UsageError("there are no logs in " + escape(folder));
  return runs;
}

}  // namespace

bool is_pid(const std::string& word) {
  return !word.empty() && word.size() < 10 &&
         std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::string log_of_target(const std::string& pid_or_log) {
  if (!is_pid(pid_or_log)) return pid_or_log;
  const std::string log = log_of_process(std::stoi(pid_or_log));
  if (log.empty()) {
    throw UsageError(
        "process " + pid_or_log +
        " writes no log; start it with `gpupeak run`, or name the log of the process that does");
  }
  return log;
}

std::string log_meant_by(const std::string& log) {
  if (access(log.c_str(), F_OK) == 0 || !is_pid(log)) return log;
  const auto pid = static_cast<uint32_t>(std::stoul(log));
  if (access(("/proc/" + log).c_str(), F_OK) == 0) {
    const std::string written = log_of_process(std::stoi(log));
    if (!written.empty()) return written;
  }
  FolderLog newest;
  for (FolderLog& ended : LogFolder(".", SIZE_MAX).look().logs) {
    if (ended.head.header.pid == pid &&
        ended.head.header.start_realtime_ns >= newest.head.header.start_realtime_ns)
      newest = std::move(ended);
  }
  return newest.path.empty() ? log_of_target(log) : newest.path;
}

void add_outside_look(const RunLogs& run, const RunLog& log, Metrics& metrics) {
  const gpupeak_file_header& header = log.head.header;
  const auto add = [&](const std::vector<RunRecord::Resident>& resident) {
    for (const RunRecord::Resident& seen : resident)
      if (seen.pid == header.pid)
        add_look(seen, (header.flags & GPUPEAK_FLAG_FORKED) != 0, metrics);
  };
  add(run.resident);
  if (run.logs.size() > 1 || run.record) return;
  // A child's log that is named alone.
  const std::string main = log_of_run(log.path, log.head);
  const auto record = main.empty() ? std::nullopt : read_run_record(main);
  if (record) add(record->resident);
}

uint64_t RunLogs::resident_bytes(const RunLog& log) const {
  uint64_t bytes = log.head.counters.rss_peak_bytes;
  for (const RunRecord::Resident& seen : resident)
    if (seen.pid == log.head.header.pid) bytes = std::max(bytes, seen.rss_bytes);
  return bytes;
}

uint64_t RunLogs::host_bytes(const RunLog& log) const {
  const gpupeak_counters_page& page = log.head.counters;
  const bool forked = (log.head.header.flags & GPUPEAK_FLAG_FORKED) != 0;
  Metrics metrics{{"host.rss.peak_bytes", page.rss_peak_bytes}};
  add_outside_look(*this, log, metrics);
  const char* const which = forked ? "host.memory.seen_bytes" : "host.memory.peak_bytes";
  uint64_t own = metric(metrics, which).value_or(forked ? 0 : page.rss_peak_bytes);
  for (const RunRecord::Resident& seen : resident)
    if (forked && seen.pid == log.head.header.pid)
      own -= std::min(own, seen.shared_anonymous_bytes);
  // Looks at children, or at a process that was killed, may have come before its peak.
  return page.rss_peak_bytes > 0 && !forked ? own : std::max(own, page.heap.peak);
}

size_t RunLogs::lead() const {
  const auto held = [this](const RunLog& log) {
    return std::tuple(most_of_gpus(log.head), log.head.counters.device_events > 0, host_bytes(log));
  };
  return static_cast<size_t>(std::ranges::max_element(logs, {}, held) - logs.begin());
}

RunLogs logs_of_run(const std::string& name) {
  RunLogs run;
  run.name = name;
  if (part_name(name).number != 0) {
    if (std::optional<RunLogs> process = named_process(name)) return *std::move(process);
    // A part of a log. For anything else the reader throws what is wrong.
    const LogReader part(name);
    run.logs.push_back({name, {part.header(), part.counters(), part.used_bytes()}});
    return run;
  }
  std::optional<LogHead> head = head_of(name);
  if (!head) {
    const LogReader log(name);  // throws what is wrong with it
    head = {log.header(), log.counters(), log.used_bytes()};
  }
  run.logs.push_back({name, *head});
  run.record = read_run_record(name);
  if (run.record) {
    add_recorded(run);
    run.resident = run.record->resident;
  }
  if (run.record ? !run.record->left_running.empty() : is_started(*head)) add_beside(run);
  return run;
}

bool is_folder(const std::string& name) {
  std::error_code error;
  return std::filesystem::is_directory(name, error);
}

const RunLog& process_of_run(const RunLogs& run, const std::string& process) {
  std::vector<const RunLog*> found;
  for (const RunLog& log : run.logs) {
    if (is_process(log, process)) found.push_back(&log);
  }
  if (found.size() == 1) return *found.front();
  constexpr size_t kMostNamed = 8;
  std::string known;
  for (size_t i = 0; i < std::min(run.logs.size(), kMostNamed); ++i)
    known += (known.empty() ? "" : ", ") + who(run.logs[i]);
  if (run.logs.size() > kMostNamed) known += " …";
  throw UsageError("--process {}: {} has {}: {}", escape(process), escape(run.name),
                   found.empty() ? "no such process" : "several such processes", known);
}

std::vector<RunLogs> runs_of(const std::vector<std::string>& names, const std::string& process) {
  std::vector<RunLogs> runs;
  for (const std::string& name : names) {
    if (is_folder(name))
      std::ranges::move(runs_in(name), std::back_inserter(runs));
    else
      runs.push_back(logs_of_run(name));
  }
  for (RunLogs& run : runs) {
    if (process.empty()) break;
    const RunLog chosen = process_of_run(run, process);
    run = {chosen.path, {chosen}, std::nullopt, 0};
  }
  return runs;
}

std::vector<ProcessRecord> with_outside_looks(const std::vector<std::string>& names,
                                              std::vector<ProcessRecord> records) {
  std::set<std::string> runs;  // of a child the run's, which is read once for all of them
  for (const std::string& name : names) {
    const std::optional<LogHead> head = head_of(name);
    const std::string main = head ? log_of_run(name, *head) : "";
    runs.insert(main.empty() ? fs::absolute(name).lexically_normal().string() : main);
  }
  for (const RunLogs& run : runs_of({runs.begin(), runs.end()})) {
    if (run.resident.empty()) continue;
    for (const RunLog& log : run.logs) {
      const auto record = std::ranges::find(records, log.head.header.cookie, &ProcessRecord::id);
      if (record == records.end() || !record->resident) continue;
      Metrics metrics(record->resident->begin(), record->resident->end());
      add_outside_look(run, log, metrics);
      record->note_resident(metrics);
    }
  }
  return records;
}

std::vector<std::string> all_logs(const std::vector<std::string>& names) {
  std::vector<std::string> logs;
  std::set<uint64_t> given, added;
  for (const std::string& name : names) {
    if (!is_folder(name)) given.insert(logs_of_run(name).logs.front().head.header.cookie);
  }
  for (const RunLogs& run : runs_of(names)) {
    for (const RunLog& log : run.logs) {
      const uint64_t id = log.head.header.cookie;
      const bool is_first = &log == &run.logs.front();
      if (is_first || (!given.contains(id) && added.insert(id).second)) logs.push_back(log.path);
    }
  }
  return logs;
}

}  // namespace gpupeak::collector
