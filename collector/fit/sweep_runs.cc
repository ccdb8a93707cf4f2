#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>

#include "collector/fit/need.h"
#include "collector/text/error.h"
#include "collector/text/scope_key.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

constexpr int kSignalBase = 128;  // a shell's exit code for signal 0

struct ReadLogs {
  std::vector<LogNeeds> needs;  ///< of logs that used a GPU
  bool was_refused = false;     ///< a request for GPU memory was refused
};

ReadLogs read_logs(SweepRun& run, const std::vector<std::string>& logs, const Options& options) {
  ReadLogs read;
  for (const std::string& log : logs) {
    try {
      LogNeeds of = needs_of(log, options);
      for (const OutOfMemory& oom : of.summary.oom)
        read.was_refused = read.was_refused || (!oom.on_host && !oom.only_addresses);
      if (!of.devices.empty()) {
        if (run.log.empty()) run.log = log;
        read.needs.push_back(std::move(of));
      }
    } catch (const LogError& error) {
      run.why = error.what();
    }
  }
  if (run.log.empty() && !logs.empty()) run.log = logs.front();
  return read;
}

/// Whether the end of the program's output says that memory ran out.
bool says_out_of_memory(const std::string& output) {
  constexpr size_t kTail = 64 << 10;
  std::ifstream file(output, std::ios::binary | std::ios::ate);
  if (!file) return false;
  const auto bytes = static_cast<size_t>(file.tellg());
  std::string text(std::min(bytes, kTail), '\0');
  file.seekg(static_cast<std::streamoff>(bytes - text.size()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr const char* kSigns[] = {"out of memory", "outofmemory", "resource_exhausted",
                                    "memoryerror",   "bad_alloc",   "cannot allocate memory"};
  return std::ranges::any_of(
      kSigns, [&](const char* sign) { return text.find(sign) != std::string::npos; });
}

/// Sets how the run went and, if it is left out, why.
void set_status(SweepRun& run, bool saw_device, bool was_refused) {
  const int code = run.exit_code.value_or(0);
  run.status = SweepStatus::kDone;
  if (code != 0) {
    run.status = was_refused || says_out_of_memory(run.output) ? SweepStatus::kOutOfMemory
                                                               : SweepStatus::kFailed;
    run.why = code > kSignalBase ? fmt::format("signal {}", code - kSignalBase)
                                 : fmt::format("exit code {}", code);
  } else if (!saw_device) {
    run.status = SweepStatus::kFailed;
    if (run.why.empty()) run.why = "no GPU memory was seen; --of host --again asks for the host's";
  } else if (was_refused) {
    run.status = SweepStatus::kRefused;
    run.why = "it was refused memory and went on without";
  }
}

void set_bounds(SweepRun& run, const DeviceNeed& need, const Card* card) {
  run.device = need.device;
  run.device_name = need.name;
  run.card_bytes = need.card_bytes;
  const FitBounds bounds = fit_bounds(need, card == nullptr || is_card(*card, need.name));
  run.least_bytes = bounds.least;
  if (run.status != SweepStatus::kDone) return;
  run.most_bytes = enough(bounds);
  run.unsure = bounds.unsure;
  if (!bounds.most && !need.no_most.empty()) run.why = need.no_most.front();
}

/// Sets the tracked peak, of several processes the largest, and what it is for.
void set_peak(SweepRun& run, const FitDevice& of, const std::vector<LogNeeds>& logs) {
  for (const size_t log : of.logs) {
    for (const DeviceSummary& device : logs[log].summary.devices) {
      if (device.ordinal != of.need.device && device.uuid != of.need.uuid) continue;
      const Peak* peak = logs[log].summary.find_peak(ScopeKey::device(device.ordinal).text());
      if (peak == nullptr || peak->bytes <= run.peak_bytes) continue;
      run.peak_bytes = peak->bytes;
      run.tags = peak->tags;
    }
  }
}

SweepCapacity capacity_of(const std::vector<const SweepRun*>& runs, const SweepCapacity& asked) {
  if (!asked.name.empty()) return asked;
  for (const SweepRun* run : runs) {
    if (run->card_bytes == 0) continue;
    return {run->card_bytes, run->card_bytes,
            fmt::format("this card ({})", size_text(run->card_bytes))};
  }
  return {};
}

/// What a run needed of the host. The processes had at least the largest of their peaks at one
/// moment, and at most their sum: shared pages count once for each process.
struct HostNeed {
  uint64_t least = 0, most = 0;
  std::string no_most;  ///< why `most` is none; empty: it is one
  /// Adds a process's peak.
  void add(const std::optional<uint64_t>& resident, const std::string& name) {
    if (!resident) no_most = fmt::format("what was resident of {} is not known", name);
    least = std::max(least, resident.value_or(0));
    most += resident.value_or(0);
  }
};

HostNeed host_need_of(const Summary& summary) {
  HostNeed need;
  if (const auto& run = summary.whole_run) {
    for (const WholeRun::Process& process : run->processes)
      need.add(process.rss_peak_bytes, process.program);
    for (const WholeRun::NotRecorded& process : run->not_recorded)
      need.add(process.rss_bytes, process.program);
    if (run->unseen_rss_bytes) need.add(run->unseen_rss_bytes, "a process that nobody saw");
  } else {
    need.add(metric(summary.metrics, "host.rss.peak_bytes"), "the program");
  }
  return need;
}

}  // namespace

void read_run(SweepRun& run, const std::vector<std::string>& logs, const Card* card,
              const Options& options) {
  const ReadLogs read = read_logs(run, logs, options);
  const FitReport fit = answer_fit(read.needs, {});
  set_status(run, !fit.devices.empty(), read.was_refused);
  const auto most =
      std::ranges::max_element(fit.devices, {}, [](const auto& of) { return of.need.held_bytes; });
  if (most == fit.devices.end()) return;
  set_bounds(run, most->need, card);
  set_peak(run, *most, read.needs);
}

void read_host_run(SweepRun& run, const std::vector<std::string>& logs, const SweepCapacity& there,
                   const Options& options) {
  run.status = SweepStatus::kFailed;
  run.why = "it left no log";
  if (logs.empty()) return;
  try {
    const Summary summary = analyze_run(logs_of_run(logs.front()), options, RunDepth::kGpus);
    run.log = logs.front();
    const HostNeed need = host_need_of(summary);
    const auto& whole = summary.whole_run;
    const auto is_of_host = [](const auto& oom) { return oom.on_host && !oom.only_addresses; };
    set_status(run, true,
               std::ranges::any_of(summary.oom, is_of_host) || (whole && whole->memory_kill));
    run.device = SweepRun::kHostMemory;
    run.card_bytes = there.least;
    run.peak_bytes = run.least_bytes.emplace(need.least);
    if (run.status != SweepStatus::kDone) return;
    if (need.no_most.empty())
      run.most_bytes = need.most;
    else
      run.why = need.no_most;
  } catch (const LogError& error) {
    run.why = error.what();
  }
}

SweepOutlook::SweepOutlook(const std::vector<SweepRun>& runs, const SweepGroup& group, double step,
                           const SweepCapacity& asked)
    : runs_(runs_of(runs, group)), step_(step), capacity_(capacity_of(runs_, asked)) {
  if (!capacity_.name.empty()) prediction_ = predict(runs_, step_, capacity_);
}

SweepOutlook::Check SweepOutlook::next_check() const {
  if (!prediction_.largest) return {};
  if (prediction_.beyond) return {prediction_.was_run, {}, ""};  // there is no edge to look for
  if (prediction_.was_run && prediction_.next_was_run) return {true, {}, ""};
  const uint64_t card = most_of(runs_, &SweepRun::card_bytes);
  if (card > 0 && capacity_.most > card)
    return {false, {}, fmt::format("{} has more than the card here: not checked", capacity_.name)};
  const double value = *prediction_.largest + (prediction_.was_run ? step_ : 0);
  const std::string text = number_text(value);
  const bool known = std::ranges::any_of(runs_, [&](const SweepRun* run) {
    return run->values.front() == text && run->status != SweepStatus::kNotRun;
  });
  if (known) return {};  // it failed, or its log gives no bound
  return {false, value, ""};
}

}  // namespace gpupeak::collector
