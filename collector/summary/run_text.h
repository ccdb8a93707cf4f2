// Lines about a run as a whole that the short summary and the report share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// "SIGKILL", "signal 35".
std::string signal_name(int signal);
/// "exit 0", "killed by SIGKILL"; empty if it is not known.
std::string exit_text(const RunEnd& end);
/// "2 964 device + 61 204 host events".
std::string events_text(const Quality& quality);
/// "no record lost", or what was.
std::string losses_text(const Quality& quality);
/// "GPU 0 (H200)".
std::string device_text(const DeviceSummary& device);
/// The heap's peak as it was counted: exact where it was recorded from the start, else in usable
/// bytes; 0: not measured.
uint64_t heap_peak_bytes(const Metrics& metrics);
/// The heap that was there before call sites were recorded (a counted child, a window), bytes; 0
/// where none was, or so little of its peak that nothing reads otherwise for it.
uint64_t heap_without_sites(const Metrics& metrics);
/// Whether the process had any memory on this device.
bool was_used(const DeviceSummary& device);

/// "run", "run[1]", "run[2..100]"; with "#2" where it is of the second session.
std::string instances_text(const PhaseSummary& phase, const PhaseInstances& instances);

/// Of each phase by call and each side with memory a line: how many calls, how much more is live at
/// each end than at the one before, and which call rose furthest above its start.
std::vector<std::string> calls_lines(const Summary& summary, const TextStyle& style);
inline constexpr std::string_view kCallsNote = "as far as stacks tell calls apart: docs/rules.md";

/// The rows of a table of phases. A model has hundreds of nodes: only those whose sites
/// hold most are shown, and of each the instances that rise highest.
struct PhaseRows {
  std::vector<std::pair<const PhaseSummary*, const PhaseInstances*>> rows;
  size_t nodes_left_out = 0;
};
PhaseRows phase_rows(const Summary& summary, size_t most_nodes);

}  // namespace gpupeak::collector
