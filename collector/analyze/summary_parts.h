// The parts of a Summary, each made in a file of its own (metrics.cc, phase_summary.cc …).
// analyze() calls them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/analyze/attribution.h"
#include "collector/log/definitions.h"
#include "collector/log/log_head.h"
#include "collector/replay/ledger.h"
#include "collector/replay/replay.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

// Makes the summary's metrics: figures by name, null if something was not measured. docs/metrics.md
// defines each.

/// The figures of one device, or of all devices (-1).
Metrics device_metrics(const Replay& replay, const GroupTotals& totals, int32_t device);
/// All figures of the process.
Metrics process_metrics(const Replay& replay, const GroupTotals& totals, const Coverage& coverage);
/// Adds what was resident, by cause; the parts add up to the total. The kernel does not say whose
/// anonymous memory is. So it goes first to what malloc has free, then to what the program has in
/// use of the heap, then to its mappings; the rest has no cause.
void add_resident(const ResidentEvent& event, uint64_t mapped, bool heap_known, Metrics& metrics,
                  uint64_t mapped_least = 0);
/// Allocations made in each phase, by PhaseId: device side and host side.
std::vector<std::array<uint64_t, kPhaseSides>> phase_alloc_counts(const Replay& replay,
                                                                  const GroupTotals& totals);
/// Bytes that are live at the end and that each phase or the phases within it allocated, by
/// PhaseId: device side and host side. Phase 0 has all.
std::vector<std::array<uint64_t, kPhaseSides>> phase_live_bytes(const Replay& replay);
/// A phase's start, peak and end. `alloc_counts` are its own.
Metrics phase_metrics(const Phase& phase, const std::array<uint64_t, kPhaseSides>& alloc_counts,
                      const std::array<uint64_t, kPhaseSides>& live_bytes, bool kept_is_known,
                      bool covers_host);

// Summarizes phases: what each held when it began, at its peak and at its end, its instances, and
// the site that took most in it.
//
// Folds phases that libraries open by the thousand, each with a name of its own. Names that differ
// only in numbers become one phase, and so do the many names of one library's domain.

/// A phase of a summary that is not folded yet.
struct ListedPhase {
  static constexpr uint32_t kNoParent = UINT32_MAX;
  PhaseSummary phase;
  uint32_t parent = kNoParent;  ///< index of an earlier phase
  uint64_t domain = 0;          ///< its NVTX domain; 0: none, or the default one
};

/// The phases by their first begins. Up to 64 names that differ only in numbers are kept apart: the
/// layers of a model are such names. Phases that the program opens by gpupeak.h and the nodes of a
/// model are never folded.
std::vector<PhaseSummary> fold_phase_names(std::vector<ListedPhase> phases);

/// The name of a GPUPEAK_PHASE_*: "auto", "nvtx", "ort", "rule", "mark", "node" or "api".
std::string_view phase_source_name(uint8_t source);

struct PhaseListing {
  /// A phase that was open when the process ended ends with the run, after this time.
  int64_t run_duration_ns = 0;
  bool with_library = true;  ///< list the phases that libraries mark for themselves
  bool with_host_sites = true;
};

/// By their first begins, folded as said above.
std::vector<PhaseSummary> summarize_phases(const Replay& replay, const GroupTotals& totals,
                                           Attribution& by_site, const Coverage& coverage,
                                           PhaseListing listing);

// Finds what grows with each step of the run: sites that held more at each end of a repeated phase.

/// What came since an attach, or since a child is recorded, tells whether the host's memory grows.
inline bool knows_host_growth(const Replay& replay, const Coverage& coverage) {
  return coverage.host() || coverage.windows || is_of_attached(replay.log().header());
}
/// Only what grew all the time at about the same rate, the largest first.
std::vector<GrowthSummary> summarize_growth(const Replay& replay, Attribution& by_site,
                                            bool with_host);
/// Sets device.step_growth_bytes of each device and, to the largest of them, of the process, and
/// host.step_growth_bytes.
void add_growth_metrics(Summary& summary, bool with_host);

// Summarizes requests that the driver or an arena refused: what was asked for, what was free, who
// held the rest, and why.

/// In the order in which they failed, each with the `top` largest holders. `growth`: what grew in
/// the run, by which causes are found.
std::vector<OutOfMemory> summarize_failures(const Replay& replay, Attribution& by_site,
                                            const std::vector<GrowthSummary>& growth, size_t top);

// Turns the replayed readings of a device into what the reports print.

/// Makes the name of one item of the ledger from its cause, its name in the log and its stack.
using LedgerItemName =
    std::function<std::string(uint8_t cause, uint32_t name, uint32_t api, uint32_t stack)>;
using TicksToNs = std::function<int64_t(uint64_t ticks)>;

/// The rows of one reading: they add up to its used bytes.
LedgerView ledger_view(const LedgerSnapshot& snapshot, const TicksToNs& to_ns,
                       const Definitions& definitions);
/// A device's ledger; nullopt if there is no reading. `top`: how many items are listed.
std::optional<DeviceLedgerSummary> summarize_ledger(const DeviceLedger& ledger,
                                                    const TicksToNs& to_ns,
                                                    const Definitions& definitions,
                                                    const LedgerItemName& name_of, size_t top);
/// Adds device.ledger.* and the other metrics of the readings; null if there is no reading.
void add_ledger_metrics(const DeviceLedger* ledger,
                        const std::optional<DeviceLedgerSummary>& summary, Metrics& metrics);

// Tells the calls of one function apart where no lines do: a program built without debug
// information has all its buffers from "main". The summary and Profile ask for it once, before
// anything is named, and all rows, trees and exports follow, since the symbolizer then numbers
// these calls (Frame::call).
//
//   main 1.12 GiB   →   1st buffer of main (+0x13a1) 512 MiB
//                       2nd buffer of main (+0x13c7) 512 MiB
//                       3rd call in main (+0x140e)   128 MiB   in 4 blocks

/// A function's calls are told apart if two of them hold 5 % of a peak each. They are numbered in
/// the order of their code: first all that take memory of the driver's, then mappings, then heap
/// blocks. Heap blocks count where they hold something at a peak; whose function holds less than 1
/// MiB stay one row. Not `of_host`: only rows of devices will be shown.
void tell_calls_apart(const Replay& replay, SiteTitles& titles, bool of_host = true);

// If events were lost, the log's counters know more than the replay.

/// Sets the peaks of devices and of the heap, and their metrics, to what the counters page says.
/// That counts each call, whether or not the log has room for it. If allocations were lost the
/// replay has less, if frees were lost it has more. Holders still add up: what the log does not
/// have is a holder; if the log has too much, no holder is known.
void set_to_counted(const LogHead& head, Summary& summary);

// For an attached program: GPU memory that came and went by calls that we did not see, such as
// functions of the driver that the program keeps on its heap.

struct PassedBy {
  int64_t bytes = 0;          ///< by how much the driver's figure has grown more than what was seen
  bool knows_others = false;  ///< it does not contain other processes' memory
};
/// From the driver's first reading to the last. None: it is no more than the error of readings and
/// of the driver's own pages, or there are no readings.
std::optional<PassedBy> passed_by(const Replay& replay);

// Makes the summary's quality section: what went wrong or was not measured, as warnings with codes
// (docs/metrics.md lists them), and whether the figures are exact.

/// How the process ended, as far as its log says.
RunEnd run_end(const gpupeak_counters_page& page);

/// `symbol_warnings`: modules that could not be read.
Quality assess_quality(const Replay& replay, const Coverage& coverage,
                       const std::vector<Warning>& symbol_warnings);

// The metrics that the library itself counts while the program runs (docs/metrics.md has them all).
// They are at the front of the log, so that a run that goes on can be watched without a replay.
// `gpupeak watch` asks for them.

/// Their names.
std::vector<std::string> counter_metrics();
bool is_device_metric(std::string_view metric);
/// The metric's value. `device` is needed only for a device's metric. nullopt: not one of
/// counter_metrics(), or not measured in this run.
std::optional<uint64_t> counter_metric(const LogHead& head, std::string_view metric,
                                       int32_t device);

// Makes the summary's list of arenas, and the rows of a device's peak in which what its arenas have
// in use and idle takes the place of the calls that took that memory from the driver.

/// The title of an arena's holder: the name that the arena gave it, or the site.
std::string arena_holder_title(const Replay& replay, Attribution& by_site,
                               const ArenaTable::Holder& holder);
/// The same as a row of this kind, without figures.
Holder arena_holder_row(const Replay& replay, Attribution& by_site,
                        const ArenaTable::Holder& holder, std::string_view kind);
/// Rows of sites, which are told apart, the largest first.
std::vector<Holder> largest_first(std::map<std::string, Holder> rows);
/// The arenas, the largest first, each with its `top` largest holders.
std::vector<ArenaSummary> summarize_arenas(const Replay& replay, Attribution& by_site, size_t top);
/// The driver's pools by device: what they had reserved, as far as it was read.
std::vector<DriverPoolsSummary> summarize_driver_pools(const Replay& replay, Attribution& by_site,
                                                       size_t top);

/// Adds rows for what is in use, by site, and what is idle, by arena. With the rows of what is
/// outside they add up to the peak.
void add_arena_rows(const Replay& replay, Attribution& by_site, const std::vector<ArenaPart>& parts,
                    size_t top, Peak& peak);
/// Fills in who held a sum, grouped as `by_choice` does. If it groups by site, what is in arenas
/// has rows of its own.
void add_holders(const Replay& replay, Attribution& by_site, Attribution& by_choice,
                 const PeakParts& parts, const std::vector<Contribution>& takers, size_t top,
                 bool with_stacks, Peak& peak, const RowRoles* roles = nullptr);

}  // namespace gpupeak::collector
