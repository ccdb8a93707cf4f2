// Views of a log that has been replayed, each in the form that its ViewStyle asks for: text, JSON
// (docs/json.md) and, of some, CSV. A verb or an option of `report` shows each; tools/views/ calls
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/analyze/call_tree.h"
#include "collector/fit/need.h"
#include "collector/summary/summary.h"
#include "collector/summary/sweep.h"
#include "collector/summary/what_if.h"
#include "collector/text/text_format.h"
#include "collector/text/text_lines.h"
#include "collector/timeline/instants.h"
#include "collector/timeline/last_use.h"
#include "collector/timeline/moment.h"
#include "collector/timeline/time_series.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {

// What every view begins with, in text and in JSON: first the warnings about what was lost, then
// which peak or moment the view shows.
//
// in    a Profile: a replayed log with its symbols; a scope, and a moment or the scope's peak
// out   lines such as
//
//   GP023  1 stack deeper than 1024 frames: the outer frames are missing
//   PEAK  host memory, heap: 44.0 MiB at +0.84 s, phase decode

/// On a narrower terminal two tables stand below each other.
inline constexpr int kNarrow = 80;

/// The beginning of a view's text: what was lost, and the warnings; no line if there are none.
TextLines view_text(const Profile& profile, const TextStyle& style);
/// For a peak "PEAK  GPU 0 (H200), device memory: 5 412.3 MiB at +9.81 s, phase run[1]"; for
/// another moment "LIVE  GPU 0 (H200), device memory: 3 100.0 MiB at +7.20 s, mark warm-up done".
void add_heading(const Profile& profile, const Held& held, TextLines& text);
/// Rows of size, percent, count and site; a last row has what was cut off, so that they add up.
void add_sites(const HolderTable& table, uint64_t whole, TextLines& text);
/// What the JSON of every view begins with. `schema`: for instance "gpupeak.tree/1".
Json view_json(const Profile& profile, std::string_view schema);
/// The same, with the peak or the moment that the view shows.
Json view_json(const Profile& profile, std::string_view schema, const Held& held);
/// `begun` with these values behind it.
template <class... T>
Json with(Json begun, std::type_identity_t<JsonNames<sizeof...(T)>> names, T&&... values) {
  extend(begun, names, std::forward<T>(values)...);
  return begun;
}

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

// A row a run: what came of each program of a suite. `gpupeak diff FOLDER` shows it.
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

/// A page about all changes, each with its curves over time (WithCurves). Throws as write_page()
/// does.
void write_what_if_page(const std::vector<WhatIf>& all, const std::string& tool_version,
                        std::ostream& out);

// `gpupeak report --at MOMENT` and `gpupeak diff LOG --at A --at B`: who held the memory of each
// device and of the host at a moment, and what came, went, grew and shrank between two moments.

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

// `gpupeak tree --flame`: the peak's call tree as a flame graph in text, the outermost call on top.

/// A call is as wide as its part of the peak. A call that is narrower than a column is not shown.
/// JSON: the graph as d3-flame-graph reads it.
void write_flame(Profile& profile, const Held& held, const TreeCut& cut, std::ostream& out,
                 const ViewStyle& style);

// `gpupeak report --held`: who held a sum at moments that are not its peak.

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

// Memory over time, a chart for each sum, in block characters; also as JSON, CSV and SVG. A sum may
// be taken apart by site, tag, kind or phase.

/// The parts of a sum with a line of their own: its kinds, if there are several.
std::vector<ScopeId> timeline_kinds(const Profile& profile, ScopeId sum);

/// What a timeline shows.
struct TimelineOf {
  const Profile& profile;
  const TimeSeries& times;
  std::vector<ScopeId> scopes;
  /// Each of the scopes, taken apart; empty: they are not.
  std::vector<Stacked> stacked;

  /// Throws UsageError if the scope cannot be taken apart.
  TimelineOf(const Profile& of, const TimeSeries& series, const std::string& scope,
             std::vector<Stacked> parts = {});
  /// When the last bucket ends.
  int64_t end_ns() const { return times.begin_ns(times.bucket_count(), profile.log().clock()); }
  /// nullptr: it is not taken apart.
  const Stacked::By* parts_of(ScopeId scope) const;
};

/// `height`: rows of a chart. CSV has a row for each stretch of each curve in which something
/// changed: its least and its most. Taken apart: a row for each part at each moment.
void write_timeline(const TimelineOf& shown, size_t height, std::ostream& out,
                    const ViewStyle& style);

/// For what a picture is made: it says how wide it is and how large its letters are.
enum class PictureSize { kScreen, kPage, kColumn };
/// `dark`: on a dark ground. Else on white; a picture for the screen follows its viewer's theme.
void write_timeline_svg(const TimelineOf& shown, PictureSize size, bool dark, std::ostream& out);

/// Lines and texts of a drawing.
class Svg {
 protected:
  explicit Svg(std::ostream& out) : out_(out) {}
  void line(double x1, double y1, double x2, double y2, std::string_view css);
  void text(double at_x, double at_y, std::string_view anchor, std::string_view css,
            const std::string& what);

  std::ostream& out_;
};

/// The unit for times up to `end_ns`, and its length in ns.
struct TimeUnit {
  double ns;
  std::string_view name;
};
TimeUnit time_unit(int64_t end_ns);
/// A round step for an axis from 0 to `end`, with `most` steps at most.
double axis_step(double end, size_t most);

// `gpupeak arenas`: what arenas shared out, on two levels: the segments that they took, and the
// blocks in use and the holes in these, at any instant. Also how much each arena had in use at each
// mark.

/// An instant of a log, given by the number of events before it.
struct ArenaInstant {
  static constexpr uint64_t kEnd = UINT64_MAX;
  uint64_t events = kEnd;
  int64_t time_ns = 0;
  std::string name;  ///< "the peak of PyTorch on GPU 0", "mark step", "the end", "+1.25s"
};

struct ArenaBlock {
  uint64_t address = 0, bytes = 0;
  uint32_t name = 0, stack = 0;
  bool alone = false;  ///< in no segment
  // For a log with uses: how the block's uses stand to the instant, and by how long.
  UseAtPeak use = UseAtPeak::kNotKnown;
  int64_t use_ns = 0;
};
/// One arena at that instant.
struct ArenaState {
  ArenaTable::Level level;
  std::vector<ArenaTable::Segment> segments;  ///< by address
  std::vector<ArenaTable::Segment> holes;     ///< idle parts of the segments, by address
  std::vector<ArenaBlock> blocks;             ///< by address

  uint64_t largest_idle() const;
  /// Fragmentation: idle bytes in holes that are too small for a request of `bytes`.
  uint64_t idle_in_smaller(uint64_t bytes) const;
  /// Idle bytes that lie at no address at that instant, such as memory that is not mapped.
  uint64_t idle_unplaced() const;
  uint64_t alone_bytes() const;
};

/// Watches the first replay: notes marks, and when each arena's peak was.
class ArenaMoments : public ReplayObserver {
 public:
  struct AtMark {
    uint64_t events = 0;
    uint64_t ticks = 0;
    uint32_t name = 0;                      ///< Replay::name()
    std::vector<ArenaTable::Level> levels;  ///< of the arenas that existed then
  };
  void after(const Event& event) override;

  const std::vector<AtMark>& marks() const { return marks_; }
  /// The number of events up to the arena's peak.
  uint64_t peak_events(size_t arena) const {
    return arena < peaks_.size() ? peaks_[arena].second : 0;
  }

 private:
  static constexpr size_t kMaxMarks = 10'000;
  uint64_t events_ = 0;
  std::vector<AtMark> marks_;
  std::vector<std::pair<uint64_t, uint64_t>> peaks_;  // bytes, events
};

/// `at`: "peak" (when the arena with the largest peak had most in use), else as find_moment() takes
/// it. Throws UsageError if the log has no such instant.
ArenaInstant arena_instant(const Profile& profile, const ArenaMoments& moments,
                           const std::string& at);
/// The state of each arena at that instant, by the arena's number. Replays the log once more.
std::vector<ArenaState> arenas_at(Profile& profile, const ArenaInstant& instant,
                                  const Progress& progress);

void write_arenas(Profile& profile, const ArenaMoments& moments, const ArenaInstant& instant,
                  const std::vector<ArenaState>& states, size_t top, std::ostream& out,
                  const ViewStyle& style);

}  // namespace gpupeak::collector
