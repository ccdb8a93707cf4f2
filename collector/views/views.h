// Views of a log that has been replayed, each in the form that its ViewStyle asks for: text, JSON
// (docs/json.md) and, of some, CSV. A verb or an option of `report` shows each; tools/views/ calls
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "collector/analyze/profile.h"
#include "collector/fit/need.h"
#include "collector/summary/summary.h"
#include "collector/summary/sweep.h"
#include "collector/summary/what_if.h"
#include "collector/text/text_format.h"
#include "collector/timeline/last_use.h"
#include "collector/timeline/moment.h"
#include "collector/timeline/time_series.h"
#include "collector/views/heading.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {

// `gpupeak sweep`: a table and a plot of what runs with different values of a parameter needed,
// curves through these needs, and the largest value that fits.

struct SweepReport {
  std::vector<SweepParameter> parameters;
  std::vector<std::string> command;  ///< as given, with {names} of parameters
  std::string folder;
  std::vector<SweepRun> runs;
  /// In the order of groups_of(runs); an empty name: not known.
  std::vector<SweepCapacity> capacities;
  std::vector<SweepPrediction> predictions;  ///< in the same order
  bool interrupted = false;
  std::vector<std::string> notes;
};

void write_sweep(const SweepReport& report, std::ostream& out, const ViewStyle& style);
/// A page of HTML that needs no other file.
void write_sweep_page(const SweepReport& report, std::ostream& out);

// What the text and the page of `gpupeak sweep` share: tags by size, and curves, runs and
// predictions in words.

using SweepRuns = std::vector<const SweepRun*>;

/// Whether the run was measured. The curve may leave it out all the same.
bool has_figures(const SweepRun& run);
/// Tags by the most bytes that a run has of them, the largest first.
std::vector<std::string> largest_tags(const SweepRuns& runs);
/// "300 MiB + 37.0 MiB × batch".
std::string curve_text(const Curve& curve, const std::string& name, const TextStyle& style);
/// Why the run is left out, was not run or has no upper bound; empty: nothing of that.
std::string status_text(const SweepRun& run);
std::string prediction_text(const SweepReport& report, const SweepCapacity& capacity,
                            const SweepPrediction& prediction);
/// "batch, length=128  GPU 0 (H200)".
std::string sweep_title(const SweepReport& report, const SweepGroup& group);

// A row a run: what came of each program of a suite. `gpupeak compare FOLDER` shows it.
//
// in    the summary of each run of a folder, and of last week's
// out   run    exit  device peak   change  who holds it                 would lower it
//       scan      0      768 MiB  +12.0 %  1st buffer of main … 33.3 %  never seen used −33.3 %

struct SuiteRow {
  std::string run;      ///< the log's name, without folder and suffix
  std::string command;  ///< program and arguments
  RunEnd end;
  std::optional<uint64_t> device_bytes, host_bytes;  ///< peaks; none: not measured
  std::optional<uint64_t> host_error;                ///< of an estimate
  /// Of the run of this name that it is compared with; none: there is none, or it was not measured
  /// there.
  std::optional<uint64_t> device_before, host_before;
  std::string
      holder;        ///< the largest row of the device's peak, or of the host's if no GPU was used
  std::string role;  ///< of its memory: "copied in · read by add"; empty: not known
  uint64_t holder_bytes = 0, holder_of = 0;  ///< its bytes, and the peak that they are of
  std::string lowered_by;                 ///< the change that saves most; empty: none, or not known
  std::optional<uint64_t> lowered_bytes;  ///< the peak with it
  int64_t duration_ns = 0;
  bool complete = false;  ///< ended in order, and nothing was lost; set by the caller
  std::string error;      ///< why the log could not be read; then nothing else is known but `run`
};

enum class SuiteOrder { kDevice, kHost, kTime, kChange, kName };

SuiteRow suite_row(const std::string& run, const Summary& summary);
/// Largest first, names in their order; what is not known comes last.
void order(std::vector<SuiteRow>& rows, SuiteOrder by);

void write_suite(const std::vector<SuiteRow>& rows, bool compared, std::ostream& out,
                 const ViewStyle& style);
/// A page that needs no script.
void write_suite_html(const std::vector<SuiteRow>& rows, bool compared, std::ostream& out);

// `gpupeak whatif`: what a run's memory would have been with a change, and which settings would
// lower it.

/// A table for each sum that had a peak.
void write_what_if(const WhatIf& what_if, std::ostream& out, const ViewStyle& style);
/// A line for each of the first `rows` changes, in their order. As text nothing if there are none.
void write_lowering(const std::vector<WhatIf>& all, size_t rows, std::ostream& out,
                    const ViewStyle& style);
/// gpupeak.whatif/1; docs/json.md.
Json what_if_json(const WhatIf& what_if);

/// A page about all changes, each with its curves over time (WithCurves). Throws as write_page()
/// does.
void write_what_if_page(const std::vector<WhatIf>& all, const std::string& tool_version,
                        std::ostream& out);

// `gpupeak report --at MOMENT` and `gpupeak diff LOG --at A --at B`: who held the memory of each
// device and of the host at a moment, and what came, went, grew and shrank between two moments.

/// The scopes of each device's memory and of the host's that the log has.
std::vector<ScopeId> sides(const Profile& profile);

/// A table for each scope. Its rows add up to what was live; the last one is for all others.
void write_live(Profile& profile, const std::vector<Held>& held, GroupBy by, size_t top,
                std::ostream& out, const ViewStyle& style);

/// `a` and `b` have the same scopes in the same order. In tables by site the blocks of pools are
/// rows of their own. JSON has all rows.
void write_between(Profile& profile, const std::vector<Held>& a, const std::vector<Held>& b,
                   GroupBy by, size_t top, std::ostream& out, const ViewStyle& style);

// Several runs side by side: their peaks, their phases and the largest sites at the peak, in text
// and in JSON.

using Profiles = std::vector<std::unique_ptr<Profile>>;

/// `scope`: the phases and sites of this scope are shown; empty: the scope that a view of the first
/// run shows by default. Throws UsageError if no run has the scope.
void write_compare(const Profiles& runs, const std::string& scope, size_t top, std::ostream& out,
                   const ViewStyle& style);

// `gpupeak fit`: what a run needs of each GPU, whether a card has that, and what would make it
// less.

void write_fit(const FitReport& report, size_t top, std::ostream& out, const ViewStyle& style);

// `gpupeak report --byte-seconds`: what each site held, multiplied by how long.

/// A table for each sum. Its rows add up to the sum; the last one is for all others. In tables by
/// site the blocks of pools are rows of their own.
void write_byte_seconds(Profile& profile, const std::vector<HeldTime>& held, GroupBy by, size_t top,
                        std::ostream& out, const ViewStyle& style);

// `gpupeak flame`: the peak's call tree as a flame graph in text, the outermost call on top.

/// A call is as wide as its part of the peak. A call that is narrower than a column is not shown.
/// JSON: the graph as d3-flame-graph reads it.
void write_flame(Profile& profile, const Held& held, const TreeCut& cut, std::ostream& out,
                 const ViewStyle& style);

// `gpupeak held`: who held a sum at moments that are not its peak.

/// A table of sites for each moment; its rows add up to what was live then.
void write_held(Profile& profile, ScopeId scope, const std::vector<Moment>& moments, size_t top,
                std::ostream& out, const ViewStyle& style);

// `gpupeak report --last-use`: when the blocks that were live at the peak were used.

/// For each device the bytes by use, then the sites whose blocks were not in use around the peak,
/// largest first.
void write_last_use(Profile& profile, const LastUses& uses, size_t top, std::ostream& out,
                    const ViewStyle& style);

// `gpupeak leaks`: what was live when the process ended, by site, the devices first.

/// A table of `top` rows for `scope`. Empty: one for each device, for managed memory and for the
/// host.
void write_leaks(Profile& profile, const std::string& scope, size_t top, std::ostream& out,
                 const ViewStyle& style);

// What the peak's memory was for, in two views beside each other, as MXNet's memory profiler had
// it: by layer (the phase in which it was allocated) and by data structure (the tag).

/// CSV: "tag,MiB", a line for each tag, without a heading. Every byte of the peak is in one tag.
void write_tags(Profile& profile, const Held& held, size_t top, std::ostream& out,
                const ViewStyle& style);

// `gpupeak temporary`: sites whose blocks were freed at once; docs/metrics.md says how soon.

/// `scope`: empty: all memory that was measured.
void write_temporary(Profile& profile, const std::string& scope, size_t top, std::ostream& out,
                     const ViewStyle& style);

// `gpupeak tree`: who held the peak, from the outermost call inwards.

/// The rows below a row add up to it; calls that are not shown are one row, "N more". Where only
/// one call is shown and the rest is too small to be shown, the rest has no row.
void write_tree(Profile& profile, const Held& held, const TreeCut& cut, std::ostream& out,
                const ViewStyle& style);

}  // namespace gpupeak::collector
