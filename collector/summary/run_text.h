// Lines about a run as a whole that the short summary and the report share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/summary/summary.h"
#include "collector/summary/whole_run.h"
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

// Resident memory by cause, from its metrics.

struct ResidentCause {
  std::string_view text;  ///< "kept by malloc"
  uint64_t bytes = 0;
};

/// Largest first, without causes of 0 bytes; they add up to host.resident.total_bytes. Empty:
/// nobody looked, or not all of it has a cause that is told apart.
std::vector<ResidentCause> resident_causes(const Metrics& metrics);

/// How much of a row of a peak was resident at most: less than it has where it is of anonymous
/// mappings, and all of these together had less resident.
uint64_t resident_at_most(const Holder& holder, const Metrics& metrics);
/// "  (≤ 100 MiB resident)": at most so much of the row; empty: all of it may have been.
std::string resident_mark(const Holder& holder, const Metrics& metrics, const TextStyle& style);
/// The rows of a peak, by what of them was resident at most: a reservation that nobody touched
/// comes behind what was used.
std::vector<const Holder*> rows_by_resident(const Peak& peak, const Metrics& metrics);

/// Whether the largest RSS was clearly more than what was resident at the last look.
bool is_seen_late(uint64_t looked_at_bytes, uint64_t rss_bytes);

}  // namespace gpupeak::collector
