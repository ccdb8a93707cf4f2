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
/// "no record lost", or what was lost.
std::string losses_text(const Quality& quality);
/// "GPU 0 (H200)".
std::string device_text(const DeviceSummary& device);
/// The heap's peak as it was counted: exact if the heap was recorded from the start, else in usable
/// bytes; 0: not measured.
uint64_t heap_peak_bytes(const Metrics& metrics);
/// Bytes of the heap from before call sites were recorded (a counted child, a window). 0: none, or
/// no more than a twentieth of the heap's peak, which changes nothing that is said.
uint64_t heap_without_sites(const Metrics& metrics);
/// The program and its arguments, with spaces between.
std::string command_text(const RunSummary& run);
/// The largest peak of a device's sum; nullptr: no device has one.
const Peak* largest_device_peak(const Summary& summary);
/// Whether the process had any memory on this device.
bool was_used(const DeviceSummary& device);

/// "run", "run[1]", "run[2..100]"; with " #2" for the second session of ONNX Runtime.
std::string instances_text(const PhaseSummary& phase, const PhaseInstances& instances);

/// A line for each phase by call and each side with memory: how many calls, how much more is live
/// at each end than at the end before, and which call rose furthest above its start.
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
