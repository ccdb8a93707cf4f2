// What is said of a run in words: lines that the short summary, the report and others share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

/// What explains a "kept" that is more than the peak beside it; empty: none is.
std::string_view kept_note(const PhaseRows& table);

// Resident memory by cause, from its metrics.

struct ResidentCause {
  std::string_view text;  ///< "kept by malloc"
  uint64_t bytes = 0;
};

/// What was the process's own when its parts were looked at.
uint64_t own_when_looked_at(const Metrics& metrics);
/// Largest first, without causes of 0 bytes; they add up to host.resident.total_bytes, and, less
/// files and gpupeak's own, to host.memory.peak_bytes: one row is what no look saw. Empty: nobody
/// looked, or not all of it has a cause that is told apart.
std::vector<ResidentCause> resident_causes(const Metrics& metrics);

/// How much of a row of a peak was resident at most: less than it has where a look saw so, or where
/// it is of anonymous mappings, and all of these together had less resident.
uint64_t resident_at_most(const Holder& holder, const Metrics& metrics);
/// "  (100 MiB resident)", or "≤ 100 MiB" if that is a bound; empty: all of it may have been.
std::string resident_mark(const Holder& holder, const Metrics& metrics, const TextStyle& style);
/// The rows of a peak, by what of them was resident at most: a reservation that nobody touched
/// comes behind what was used.
std::vector<const Holder*> rows_by_resident(const Peak& peak, const Metrics& metrics);

// A run of several processes, and what was not seen of it. The short summary, the report and the
// gates use this.

/// "pid 713 python3".
std::string pid_text(uint64_t pid, const std::string& program);
/// "rank 1, pid 713 python3".
std::string process_text(const WholeRun::Process& process);

/// "still running: pid 713 redis-server, 40.0 MiB resident; …", and where its log can be read.
std::string still_running_text(const WholeRun::StillRunning& process, const TextStyle& style);

/// What is missing from the run's figures, a sentence each. Empty: as far as anybody looked, every
/// process was recorded to its end and without a loss.
std::vector<std::string> missing_from(const WholeRun& run, const TextStyle& style);

/// Whether a figure of GPUs may be less than what the run held.
bool lacks_device_memory(const WholeRun& run);

/// Whether every figure is exact and the run was recorded to its end. If it was killed, nobody
/// knows how much memory it would have taken. --strict asks this.
bool is_whole(const Quality& quality);
/// The same for all processes of a run. Also, no process still runs, none went on with a program
/// that was not recorded, and none that used a GPU is missing.
bool is_whole(const Summary& summary);

/// Resident bytes without a known cause, if they are 16 MiB or more and more than a fiftieth. 0:
/// they are less, or nobody looked.
uint64_t unexplained_resident_bytes(const Summary& summary);
/// Whether every process was recorded and nothing was lost, somebody looked for other processes,
/// and what was resident has known causes.
bool is_complete(const Summary& summary);

/// "killed for memory: cgroup limit 400 MiB"; empty: nobody was killed.
std::string memory_kill_text(const WholeRun& run, const TextStyle& style);

/// The verdict's sentence if several processes used GPUs: what they held at once. If none did: what
/// several processes had resident together. Else empty.
std::string peak_at_once_text(const WholeRun& run, const TextStyle& style);

/// A row for each process that used a GPU (if none did: for the largest processes), at most so
/// many; then the host's.
std::vector<std::string> process_rows(const WholeRun& run, size_t most, const TextStyle& style);

// Why a request for memory was refused, from the figures of that moment alone. A cause is something
// without which the request would have been served; where the figures prove none, none is named.

/// The result of a request for which there was no memory. Other results have other reasons.
inline constexpr std::string_view kNoCardMemory = "CUDA_ERROR_OUT_OF_MEMORY";
/// The same for the machine's memory.
inline constexpr std::string_view kNoHostMemory = "ENOMEM";
inline bool found_no_memory(const OutOfMemory& oom) {
  return oom.result == kNoCardMemory || oom.result == kNoHostMemory;
}

/// Fills `oom.causes` and `oom.parts` from its other fields.
void find_causes(OutOfMemory& oom);
/// Bytes of the card that other processes had then; nullopt: not known.
std::optional<uint64_t> others_bytes(const OutOfMemory& oom);
/// The bytes that the driver had to find, in whole pages of its own. If an arena asked the driver:
/// the bytes of that request.
uint64_t needed_of_driver(const OutOfMemory& oom);

// Why a request for memory was refused, with the figures that prove it, and what would help.

/// One sentence: the cause, or what is known if the figures prove none. Empty if it failed for
/// another reason than memory.
std::string why_text(const OutOfMemory& oom, const TextStyle& style);
/// The setting or habit that would help against that cause; empty: there is none.
std::string help_text(const OutOfMemory& oom, const TextStyle& style);
/// "+3.10 MiB at each step, 99 times, 307 MiB in all: stack".
std::string growth_text(const GrowthSummary& growth, const TextStyle& style);
/// "it grows by 56.1 MiB a step, 30 steps: 7 blocks each by …, none freed; the card has room for
/// 1 290 more at most", or "it grows by 23.0 MiB at each train, 60 times: 20.0 MiB by …, 3.00 MiB
/// by …": all that grows at the steps of the row that grew most, of a device or of the host. Empty:
/// there is none, or less than a tenth of what is held. `total`: bytes of the card; 0: not known.
std::string steps_text(const std::vector<GrowthSummary>& growths, std::optional<int32_t> device,
                       uint64_t total, uint64_t held, const TextStyle& style);

// Why an arena is as large as it is.

/// Whether it took nearly all of its memory at once, more than ten times what the request needed: a
/// share of the card, taken in advance.
bool was_taken_in_advance(const ArenaSummary& arena);
/// When it grew to its size and who was in it then; how much of it was idle at the device's peak,
/// and why. Empty: the log knows of nothing that it took.
///
///   XLA's pool took 59.4 GiB in advance at +1.20 s; at most 43.7 MiB of it was in use, at +5.01 s
///   (24.0 MiB dot)
std::string arena_growth_text(const ArenaSummary& arena, const TextStyle& style);
/// What it had at its peak: "40.0 MiB in use of 64.0 MiB reserved at its peak …". For an attached
/// program, figures that are not known are left out; so they are below.
std::string arena_peak_text(const ArenaSummary& arena, const TextStyle& style);
/// What it had at the end: "at the end 8.00 MiB in use of 64.0 MiB; 1 204 allocations".
std::string arena_end_text(const ArenaSummary& arena, const TextStyle& style);
/// Of the device's arenas, the one with most idle memory at the device's peak. nullptr: none had
/// any.
const ArenaSummary* idlest_arena(const Summary& summary, int32_t device);
/// That arena, if what was freed in it since it grew to its size is more than a fifth of the
/// device's peak: then those who were in it as it grew (`largest`) are the cause of the peak, and
/// not what is idle since. nullptr: there is none, or it took its memory in advance.
const ArenaSummary* arena_behind_peak(const Summary& summary, int32_t device);
/// "PyTorch's pool as it grew to 14.2 GiB at +3.10 s, 12.3 GiB of it in use".
std::string grown_arena_text(const ArenaSummary& arena, const TextStyle& style);

// The ledger.

/// What a row is called in text: "local memory" for "local_memory".
std::string ledger_cause_text(const std::string& cause);

/// "6.03 GiB: 5.29 GiB handed out + 418 MiB context + … + 54.0 MiB unexplained". Rows of less than
/// `least` bytes are left out; the unexplained one only if it is 0.
std::string ledger_sum_text(const LedgerView& view, uint64_t least, const TextStyle& style);

/// "; others 11.2 GiB: pid 17883 python3 5.60 GiB, …; in all 12.0 GiB of the card"; empty if there
/// are none, or nobody knows.
std::string others_text(const LedgerView& view, const TextStyle& style);

/// ": pid 17883 python3 5.60 GiB, …"
std::string others_list(const LedgerView& view, const TextStyle& style);

/// ", by what was read 39 ms before and handed out since"; empty: it was read then.
std::string carried_on_text(const LedgerView& view);
/// When the driver was asked: "at the peak, +5.72 s", or how near to it: "read 0.2 s before the
/// peak, when 45 of 382 MiB were handed out". `peak`: the device's; nullptr: it had none.
std::string ledger_nearness_text(const LedgerView& view, const Peak* peak, const TextStyle& style);
/// Whether the view's causes are those of the peak.
bool is_of_peak(const LedgerView& view, const Peak* peak);
/// How many percent of what is in use: "53.2"; "–" if a row is larger than the whole, since others
/// are negative.
std::string ledger_percent(const LedgerView& view, int64_t bytes);

}  // namespace gpupeak::collector
