#include "collector/merge/job_end.h"

#include <algorithm>
#include <csignal>
#include <tuple>

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

}  // namespace

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

}  // namespace gpupeak::collector
