#include "tools/fit/sweep_host.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "collector/run/analyze_run.h"
#include "collector/text/text_format.h"
#include "tools/run/memory.h"

namespace gpupeak::tools {
namespace {

using collector::HostNeed;
using collector::WholeRun;

/// Adds a process's peak. The processes had at least the largest of these peaks at one moment, and
/// at most their sum: shared pages count once for each process.
void add(HostNeed& need, const std::optional<uint64_t>& resident, const std::string& name) {
  if (!resident) {
    need.no_most = fmt::format("what was resident of {} is not known", name);
    return;
  }
  need.least = std::max(need.least, *resident);
  *need.most += *resident;
}

}  // namespace

HostNeed host_need_of(const std::vector<std::string>& logs, const collector::Reading& reading) {
  collector::Options options;
  options.reading = reading;
  options.stacks = false;
  const collector::Summary summary = collector::analyze_run(collector::logs_of_run(logs.front()),
                                                            options, collector::RunDepth::kGpus);
  HostNeed need;
  need.most = 0;
  for (const collector::OutOfMemory& oom : summary.oom)
    need.was_refused = need.was_refused || (oom.on_host && !oom.only_addresses);
  if (const auto& run = summary.whole_run) {
    for (const WholeRun::Process& process : run->processes)
      add(need, process.rss_peak_bytes, process.program);
    for (const WholeRun::NotRecorded& process : run->not_recorded)
      add(need, process.rss_bytes, process.program);
    if (run->unseen_rss_bytes) add(need, run->unseen_rss_bytes, "a process that nobody saw");
    need.was_refused = need.was_refused || run->memory_kill.has_value();
  } else {
    add(need, collector::metric(summary.metrics, "host.rss.peak_bytes"), "the program");
  }
  if (!need.no_most.empty()) need.most.reset();
  return need;
}

collector::SweepCapacity host_capacity() {
  const uint64_t limit = MemoryKills().limit();
  const uint64_t machine =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const bool is_limited = limit != 0 && limit < machine;
  const uint64_t bytes = is_limited ? limit : machine;
  const char* const what = is_limited ? "this control group" : "this machine";
  return {bytes, bytes, fmt::format("{} ({})", what, collector::size_text(bytes))};
}

}  // namespace gpupeak::tools
