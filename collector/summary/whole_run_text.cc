#include <fmt/format.h>

#include <algorithm>

#include "collector/summary/run_text.h"
#include "collector/summary/verdict.h"
#include "collector/text/lists.h"

namespace gpupeak::collector {
namespace {

/// A process without a log and a GPU is mentioned if it had this many bytes.
constexpr uint64_t kWorthWords = 16 << 20;
constexpr size_t kMostNamed = 4;

/// "GPU 0" of "GPU 0 (H200)".
std::string short_name(const WholeRun::Sum& device) {
  std::string name = device.name.substr(0, device.name.find(" ("));
  return device.node.empty() ? name : name + " of " + device.node;
}

std::string held_text(const WholeRun::NotRecorded& process, const TextStyle& style) {
  std::string text;
  for (const WholeRun::NotRecorded::Held& held : process.held)
    text += fmt::format("{}{} of {}", text.empty() ? ", " : " and ", size_text(held.bytes, style),
                        held.device);
  if (!text.empty()) return text + " by NVML";
  if (process.used_gpu) return ", it used a GPU, how much is not known";
  if (process.rss_bytes) return ", RSS " + size_text(*process.rss_bytes, style);
  return "";
}

bool is_worth_words(const WholeRun::NotRecorded& process, const WholeRun& run) {
  if (process.used_gpu || process.went_on) return true;
  uint64_t largest = kWorthWords;
  for (const WholeRun::Process& known : run.processes)
    largest = std::max(largest, known.rss_peak_bytes.value_or(0) / 2);
  return process.rss_bytes.value_or(0) >= largest;
}

std::string devices_text(const WholeRun& run, const WholeRun::Process& process,
                         const TextStyle& style) {
  std::string text;
  size_t shown = 0;
  for (const WholeRun::OfDevice& held : process.devices) {
    if (++shown > kMostNamed) return text + " …";
    text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", size_text(held.peak_bytes, style),
                        short_name(run.devices[held.device]));
  }
  return text;
}

uint64_t mapped_bytes(const WholeRun::Process& process) {
  return metric(process.metrics, "host.kind.mmap_anon.peak_bytes").value_or(0);
}

/// What was resident and its own; none: not measured. What a child had from its parent is not.
std::optional<uint64_t> own_bytes(const WholeRun::Process& process) {
  return process.forked ? std::nullopt : metric(process.metrics, "host.memory.peak_bytes");
}

/// What it had resident, else what was resident of its heap and mappings: reserved memory alone
/// does not bring a process to the top of a list.
uint64_t held_bytes(const WholeRun::Process& process) {
  if (const auto own = own_bytes(process)) return *own;
  const uint64_t asked_for = process.heap_peak_bytes.value_or(0) + mapped_bytes(process);
  return std::min(asked_for, process.rss_peak_bytes.value_or(asked_for));
}

/// A process's heap, as it counted itself, and its mappings if they are worth words.
std::string heap_text(const WholeRun::Process& process, const TextStyle& style) {
  const uint64_t heap = process.heap_peak_bytes.value_or(0), mapped = mapped_bytes(process);
  constexpr uint64_t kNothing = 64;  // a 64th of the other is not worth words
  std::string text;
  if (mapped < kWorthWords || heap > mapped / kNothing) text = size_text(heap, style) + " of heap";
  if (mapped >= kWorthWords || mapped > heap)
    text += fmt::format("{}{} of mappings", text.empty() ? "" : " and ", size_text(mapped, style));
  constexpr uint64_t kShare = 20, kLeast = 1 << 20;
  const uint64_t own = own_bytes(process).value_or(0), asked = heap + mapped;
  if (own >= asked + std::max(asked / kShare, kLeast))
    text = fmt::format("{} resident, {}", size_text(own, style), text);
  if (process.forked) text = fmt::format("+{} since the fork", text);
  if (const uint64_t bytes = heap_without_sites(process.metrics); bytes > 0)
    text += fmt::format(" (the first {} without call sites)", size_text(bytes, style));
  return text;
}

/// Which processes still run, and where their logs can be read.
std::vector<std::string> running_lines(const WholeRun& run, const TextStyle& style) {
  std::vector<std::string> lines =
      list_of(first_of(run.still_running, kMostNamed),
              [&](const auto& process) { return still_running_text(process, style); });
  if (const size_t all = run.still_running.size(); all > kMostNamed)
    lines.push_back(fmt::format("still running: {} more", grouped(all - kMostNamed)));
  return lines;
}

bool is_still_running(const WholeRun& run, uint32_t pid) {
  return std::ranges::any_of(run.still_running,
                             [pid](const auto& process) { return process.pid == pid; });
}

/// For a run without a GPU: processes that held a good part of what the largest one did, largest
/// first.
std::vector<const WholeRun::Process*> largest_of_host(const WholeRun& run) {
  constexpr uint64_t kShare = 8;
  std::vector<const WholeRun::Process*> order;
  const uint64_t most = most_of(run.processes, held_bytes);
  const uint64_t least = std::clamp<uint64_t>(most / kShare, 1, kWorthWords);
  for (const WholeRun::Process& process : run.processes)
    if (held_bytes(process) >= least) order.push_back(&process);
  std::ranges::stable_sort(order, std::greater(), [](const auto* of) { return held_bytes(*of); });
  return order;
}

/// What the processes had resident together, at least: one process may have had more when nobody
/// looked at all of them. None: nobody looked.
std::optional<uint64_t> resident_together(const WholeRun& run) {
  std::optional<uint64_t> bytes = metric(run.metrics, "host.pss.peak_bytes");
  if (!bytes) return std::nullopt;
  for (const WholeRun::Process& process : run.processes)
    bytes = std::max(*bytes, process.rss_peak_bytes.value_or(0));
  return bytes;
}

std::string host_row(const WholeRun& run, const TextStyle& style) {
  std::vector<const WholeRun::Process*> order;
  for (const WholeRun::Process& process : run.processes)
    if (process.rss_peak_bytes) order.push_back(&process);
  if (order.empty()) return "";
  std::ranges::stable_sort(order, std::greater(), &WholeRun::Process::rss_peak_bytes);
  std::string text = "host: ";
  // No curve has what a parent freed, or left at its end, while a child still held it.
  const bool forked = std::ranges::any_of(run.processes, &WholeRun::Process::forked);
  if (run.host && run.host->peak_bytes)
    text += fmt::format("{} {} at once{}; ", forked ? "allocated" : "at most",
                        size_text(*run.host->peak_bytes, style),
                        forked ? ", what was inherited once" : "");
  if (const auto bytes = resident_together(run); bytes && run.gpu_processes() > 0)
    text +=
        fmt::format("resident together {} or more, shared pages once; ", size_text(*bytes, style));
  text += "RSS";
  for (size_t i = 0; i < std::min(order.size(), kMostNamed); ++i) {
    const WholeRun::Process& process = *order[i];
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", size_text(*process.rss_peak_bytes, style),
                        pid_text(process.pid, process.program));
    if (process.started) text += ", which was started";
  }
  if (order.size() > kMostNamed)
    text += fmt::format(", {} more", grouped(order.size() - kMostNamed));
  return text;
}

/// Processes that were not recorded, since they had little. Where one of them had more than all
/// that were recorded, it says how to record them.
std::string small_text(const WholeRun& run, const TextStyle& style) {
  const WholeRun::Small& small = *run.small;
  const bool is_largest = std::ranges::all_of(
      run.processes, [&](const auto& process) { return held_bytes(process) < small.rss_bytes; });
  return fmt::format("{} more process{} without a log, {}{}: {}{}", grouped(small.count),
                     small.count == 1 ? "" : "es", small.count == 1 ? "" : "the largest ",
                     small.program, size_text(small.rss_bytes, style),
                     is_largest ? " (run --children all records them)" : "");
}

/// Where its log can be read, or why there is none.
std::string log_text(const WholeRun::StillRunning& process) {
  if (!process.log.empty())
    return "its log goes on, and is read by gpupeak report " + quoted(process.log);
  if (!process.why.empty()) return "it is not recorded: " + process.why;
  return "it has no log so far, and is in this report once it has";
}

bool is_whole_process(const WholeRun::Process& process) {
  return process.exact && process.complete;
}

}  // namespace

std::string still_running_text(const WholeRun::StillRunning& process, const TextStyle& style) {
  std::string text = "still running: " + pid_text(process.pid, process.program);
  if (process.rss_bytes) text += fmt::format(", {} resident", size_text(*process.rss_bytes, style));
  return text + "; " + log_text(process);
}

std::string pid_text(uint64_t pid, const std::string& program) {
  return fmt::format("pid {}{}{}", pid, program.empty() ? "" : " ", program);
}

std::string process_text(const WholeRun::Process& process) {
  return (process.rank ? fmt::format("rank {}, ", *process.rank) : "") +
         pid_text(process.pid, process.program);
}

std::vector<std::string> missing_from(const WholeRun& run, const TextStyle& style) {
  std::vector<std::string> lines = running_lines(run, style);
  const size_t before = lines.size();
  size_t more = 0;
  for (const WholeRun::NotRecorded& process : run.not_recorded) {
    if (!is_worth_words(process, run)) continue;
    if (lines.size() - before == kMostNamed) {
      ++more;
      continue;
    }
    lines.push_back(fmt::format("not recorded: {}{}{}{}", pid_text(process.pid, process.program),
                                process.went_on ? ", as it was called in the end" : "",
                                held_text(process, style),
                                process.why.empty() ? "" : "; " + process.why));
  }
  if (more > 0) lines.push_back(fmt::format("not recorded: {} processes more", grouped(more)));
  if (run.unseen_rss_bytes) {
    lines.push_back(
        fmt::format("not recorded: a process that had RSS {}, and nobody looked while it did",
                    size_text(*run.unseen_rss_bytes, style)));
  }
  if (run.lost_logs > 0) {
    const bool one = run.lost_logs == 1;
    lines.push_back(
        fmt::format("{} of the run's processes cannot be read: {} written",
                    one ? "the log of one" : fmt::format("the logs of {}", run.lost_logs),
                    one ? "it is not where it was" : "they are not where they were"));
  }
  for (size_t i = 0; i < run.processes.size(); ++i) {
    const WholeRun::Process& process = run.processes[i];
    if (i == run.lead || is_whole_process(process) || is_still_running(run, process.pid) ||
        lines.size() - before > 2 * kMostNamed)
      continue;
    const bool was_killed = process.exact && process.end.kind == ExitKind::kSignal;
    lines.push_back(fmt::format("{}: {}", process_text(process),
                                was_killed ? exit_text(process.end) : process.losses));
  }
  return lines;
}

bool lacks_device_memory(const WholeRun& run) {
  return run.lost_logs > 0 ||
         std::ranges::any_of(run.not_recorded, &WholeRun::NotRecorded::used_gpu);
}

bool is_whole(const Quality& quality) {
  return quality.exact && quality.log_complete;
}

bool is_whole(const Summary& summary) {
  const auto& run = summary.whole_run;
  return is_whole(summary.quality) &&
         (!run || (std::ranges::all_of(run->processes, is_whole_process) &&
                   run->still_running.empty() && !lacks_device_memory(*run) &&
                   std::ranges::none_of(run->not_recorded, &WholeRun::NotRecorded::went_on)));
}

uint64_t unexplained_resident_bytes(const Summary& summary) {
  constexpr uint64_t kShare = 50, kLeast = 16 << 20;
  const uint64_t total = metric(summary.metrics, "host.resident.total_bytes").value_or(0);
  const uint64_t rest = metric(summary.metrics, "host.resident.unexplained_bytes").value_or(0);
  return rest < kLeast || rest <= total / kShare ? 0 : rest;
}

bool is_complete(const Summary& summary) {
  const auto& run = summary.whole_run;
  const Quality& quality = summary.quality;
  const bool is_exact = quality.exact || (quality.only_heap_inexact && quality.dropped_events == 0);
  return is_exact && quality.log_complete && run && run->watched &&
         unexplained_resident_bytes(summary) == 0 && !lacks_device_memory(*run) &&
         missing_from(*run, {}).empty() && std::ranges::all_of(run->processes, is_whole_process);
}

std::string memory_kill_text(const WholeRun& run, const TextStyle& style) {
  if (!run.memory_kill) return "";
  const WholeRun::MemoryKill& kill = *run.memory_kill;
  const std::string whom = kill.started_process ? ""
                           : kill.kills > 1     ? fmt::format("{} processes ", grouped(kill.kills))
                                                : "a process ";
  const std::string limit =
      kill.cgroup.empty()     ? "by SIGKILL, while the kernel's count of such kills rose"
      : kill.limit_bytes == 0 ? "a cgroup's limit above " + kill.cgroup
                              : fmt::format("cgroup limit {}", size_text(kill.limit_bytes, style));
  return fmt::format("{}killed for memory{}: {}", whom, kill.likely ? ", as it seems" : "", limit);
}

std::string peak_at_once_text(const WholeRun& run, const TextStyle& style) {
  const size_t users = run.gpu_processes();
  const auto pss = metric(run.metrics, "host.pss.peak_bytes");
  const uint64_t largest = most_of(run.processes, held_bytes);
  const uint64_t peaks = sum_of(run.processes, held_bytes);
  // For processes that were gone before anybody looked, what was seen is no answer.
  if (users == 0 && run.has_several() && pss.value_or(0) > largest / 2) {
    const uint64_t seen = *resident_together(run);
    return fmt::format("peak {} or more resident{}, of {} processes together, shared pages once",
                       size_text(seen, style),
                       peaks > seen + seen / 8
                           ? fmt::format(", {} or more if all were at their peaks at once",
                                         size_text(peaks, style))
                           : "",
                       grouped(run.processes.size()));
  }
  if (users < 2 || run.devices.empty()) return "";
  const auto most = std::ranges::max_element(
      run.devices, {}, [](const auto& device) { return device.peak_bytes.value_or(0); });
  const bool together = run.devices.size() > 1 && run.all_devices;
  const WholeRun::Sum& sum = together ? *run.all_devices : *most;
  std::string text = fmt::format("peak {}", size_text(sum.peak_bytes, style));
  if (sum.error_bytes.value_or(0) > 0)
    text += fmt::format(" at most ({} less at least)", size_text(sum.error_bytes, style));
  if (together)
    text += fmt::format(" on {} GPUs", run.devices.size());
  else {
    if (most->total_bytes > 0) text += " of " + size_text(most->total_bytes, style);
    text += " on " + most->name + (most->node.empty() ? "" : " of " + most->node);
  }
  text +=
      fmt::format(" at {}, of {} processes together", instant(sum.peak_time_ns), grouped(users));
  if (!together && run.devices.size() > 1)
    text += fmt::format("; {} GPUs in all", run.devices.size());
  if (run.processes.size() > users)
    text += fmt::format(", {} more without a GPU", grouped(run.processes.size() - users));
  return text;
}

std::vector<std::string> process_rows(const WholeRun& run, size_t most, const TextStyle& style) {
  std::vector<std::string> rows;
  if (run.small && !run.has_several()) rows.push_back(small_text(run, style));
  if (!run.has_several()) return rows;
  size_t users = 0;
  const auto add = [&](const WholeRun::Process& process, const std::string& held) {
    if (++users > most) return;
    const std::string holder =
        process.holder.empty()
            ? ""
            : fmt::format("  {} {}", size_text(process.holder_bytes, style), process.holder);
    rows.push_back(fmt::format("{}  {}{}", process_text(process), held, holder));
    const std::string grows =
        steps_text(process.growth, std::nullopt, 0, process.host_peak_bytes.value_or(0), style);
    const bool is_told = &process == &run.processes[run.lead];  // by what stands below
    if (!grows.empty() && !is_told) rows.back() += "; " + grows;
  };
  for (const WholeRun::Process& process : run.processes) {
    if (process.device_peak_bytes.value_or(0) > 0) add(process, devices_text(run, process, style));
  }
  for (const WholeRun::Process* process : largest_of_host(run)) {
    const bool has_gpu = process->device_peak_bytes.value_or(0) > 0;
    if (run.gpu_processes() == 0 || (!has_gpu && !process->holder.empty()))
      add(*process, heap_text(*process, style));
  }
  if (users > most) rows.push_back(fmt::format("{} processes more", grouped(users - most)));
  if (run.small) rows.push_back(small_text(run, style));
  if (const std::string host = host_row(run, style); !host.empty()) rows.push_back(host);
  return rows;
}

}  // namespace gpupeak::collector
