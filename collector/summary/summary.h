// All that the writers print about one log, as plain values. analyze() builds it, write_*.h print
// it. No file, clock or formatting in here. docs/metrics.md says what each figure means.
//
//   Summary
//   ├ run          command, pid, duration, how it ended
//   ├ devices      each GPU: its metrics, its ledger
//   ├ metrics      "host.peak_bytes": 1048576 …
//   ├ peaks        a scope each ("device:0", "host/heap"); holders and the rest add up to the peak
//   ├ phases, growth, arenas, marks, oom, live_at_exit, temporaries
//   ├ quality      what was lost: warnings
//   └ whole_run    the other processes of the run
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/summary/figures.h"
#include "collector/summary/lowering.h"
#include "collector/summary/warning_code.h"
#include "collector/summary/whole_run.h"
#include "collector/text/name_source.h"

namespace gpupeak::collector {

struct Warning {
  WarningCode code = WarningCode::kNone;
  std::string message;
  /// Of warnings about a module its file's name without its folder; of LogCouldNotGrow
  /// from when to when, if recording went on; else empty.
  std::string about;
};

struct Frame {
  uint64_t address = 0;  ///< return address in the process
  std::string module;    ///< file name without its folder; empty: none known
  uint64_t offset = 0;   ///< ELF address in the module, or 0
  std::string function;  ///< demangled; empty: not known
  std::string file;
  int line = 0;            ///< 0: not known
  bool is_python = false;  ///< a frame of the Python interpreter; `module` is its file
  NameSource name_source = NameSource::kNone;
};

/// One part of a site: a frame, or a run of frames of one library that have no names.
struct SitePart {
  Frame frame;
  uint32_t run = 0;         ///< frames that it stands for; 0: one that has a name
  bool of_library = false;  ///< a run that goes by its library and length, not by its address
};

/// Who holds bytes, or has allocated them: one row of a table.
struct Holder {
  std::string title;  ///< for people: "A ← B ← C", or what the rows are grouped by
  std::string kind;   ///< "device.linear", "host.heap" …
  uint64_t bytes = 0;
  uint64_t count = 0;
  std::string api;                    ///< empty: none, or several
  std::string module;                 ///< of the first frame of the title; empty: not known
  std::optional<std::string> phase;   ///< none: several, or outside of all
  std::optional<uint32_t> thread_id;  ///< none: several
  std::vector<Frame> stack;           ///< innermost first: the stack that holds most of the row
  bool temporary = false;             ///< every block was freed soon after
  int64_t longest_life_ns = 0;        ///< of the blocks freed; device kinds only
  /// Of an estimate from a sample: 95 % lie this near, or nearer.
  std::optional<uint64_t> error_bytes;
  std::vector<SitePart> parts;  ///< what the title is made of; empty: the row is no code's
  uint32_t telling_part = 0;    ///< by which it differs from the rows beside it that begin alike

  /// Whether the code is known by nothing but addresses. By where its names came from: a title may
  /// look as it likes.
  bool has_no_name() const;
};

/// A part of a peak by what it is for.
struct TagShare {
  std::string name;
  uint64_t bytes = 0;
  uint64_t count = 0;
};

struct Peak {
  std::string scope;  ///< "device:0", "host/heap" …
  uint64_t bytes = 0;
  int64_t time_ns = 0;
  std::optional<std::string> phase;
  std::optional<Holder> trigger;  ///< the allocation that made the peak
  std::vector<Holder> holders;    ///< largest first; with other_bytes they add up to bytes
  uint64_t other_bytes = 0;
  uint64_t other_sites = 0;
  std::optional<uint64_t> error_bytes;  ///< as Holder's
  bool counted = false;  ///< the counters' figure, which the log falls short of: when is not known
  /// Largest first, what no rule or tag names last; they add up to bytes. Empty: nothing is tagged,
  /// or the scope is one of a kind.
  std::vector<TagShare> tags;
};

/// Instances of a phase that are alike, on one side.
struct PhaseInstanceSide {
  uint64_t start_bytes = 0;             ///< of the first
  uint64_t peak_bytes = 0;              ///< the largest
  uint64_t end_bytes = 0;               ///< of the last
  std::optional<int64_t> kept_bytes;    ///< of all together; none: a range
  std::optional<uint64_t> alloc_count;  ///< of all together; none: a range
};

struct PhaseInstances {
  uint64_t first = 0, last = 0;  ///< numbers from 1 on
  uint64_t count = 0;
  int64_t begin_ns = 0;
  std::optional<int64_t> end_ns;  ///< none: the log ends inside
  int64_t open_ns = 0;            ///< of all together
  bool alike = true;              ///< false: there were too many different ones
  PhaseInstanceSide device;
  std::optional<PhaseInstanceSide> host;  ///< none: not measured
};

/// The calls of a phase by call, on one side.
struct PhaseCallsSide {
  int64_t grown_bytes = 0;  ///< from the end of the first to that of the last
  std::optional<int64_t> least_growth, most_growth;  ///< from one end to the next; none: one call
  uint64_t largest = 0;             ///< number of the call that rose furthest above its start
  uint64_t largest_rise_bytes = 0;  ///< so far
  uint64_t largest_peak_bytes = 0;  ///< its peak, with what was live before
};

/// Of a phase that each call of a function is (rules).
struct PhaseCalls {
  uint64_t ended = 0;  ///< calls whose end is known
  PhaseCallsSide device;
  std::optional<PhaseCallsSide> host;  ///< none: not measured
};

struct PhaseSummary {
  std::string name;
  std::string source;
  bool of_library = false;  ///< a library's mark of its own insides, not the program's
  std::optional<std::string> parent;
  int depth = 0;
  uint64_t session = 0;  ///< of ONNX Runtime, from 1 on; 0: of none
  uint64_t count = 0;
  uint64_t name_count = 1;  ///< of names that differ in numbers alone, or that are of one library
  int64_t begin_ns = 0;
  std::optional<int64_t> end_ns;  ///< none: the log ends inside it
  int64_t open_ns = 0;            ///< time within, of all instances together
  Metrics metrics;
  std::vector<PhaseInstances> instances;  ///< folded; of a phase that came once there is one
  std::optional<PhaseCalls> calls;        ///< none: not by call, or several names in one row
  /// Among the phase's own allocations the site that held most at once.
  std::optional<Holder> biggest_new_device_site, biggest_new_host_site;
};

struct MarkSummary {
  std::string name;
  std::string source;
  std::string domain;    ///< of NVTX; empty: the default one, or none
  std::string category;  ///< empty: none
  int64_t time_ns = 0;
  std::optional<uint32_t> thread_id;                 ///< none: from outside
  std::optional<uint64_t> device_bytes, host_bytes;  ///< live then
};

/// Sub-allocators of one name in one place: what they had in use of the memory that they manage. In
/// no other sum.
struct ArenaSummary {
  /// At one instant: in use + idle = reserved.
  struct Level {
    uint64_t in_use_bytes = 0, reserved_bytes = 0;
    uint64_t idle_bytes() const { return reserved_bytes - in_use_bytes; }
  };
  struct Part {
    std::string title;  ///< what the arena called it, or the site
    uint64_t bytes = 0;
    uint64_t count = 0;
  };
  /// When it became larger than ever: which request made it take how much.
  struct Growth {
    std::string title;  ///< the site of the request
    int64_t time_ns = 0;
    uint64_t bytes = 0, asked_bytes = 0;
    uint64_t in_use_bytes = 0, reserved_bytes = 0;  ///< in use before, reserved after
  };
  /// When it had reserved more than ever, and who was in it then.
  struct Largest {
    int64_t time_ns = 0;
    uint64_t in_use_bytes = 0;
    std::vector<Part> parts;  ///< largest first; with other_bytes they add up to in_use_bytes
    uint64_t other_bytes = 0;
  };
  /// Whose requests made it take the segments that it had when it was largest.
  struct Cause {
    std::string title;
    uint64_t bytes = 0;
    uint64_t segments = 0;
    uint64_t largest_bytes = 0, largest_asked_bytes = 0;  ///< of its segments, ever
    uint64_t in_use_bytes = 0;                            ///< of the arena when that was taken
    int64_t time_ns = 0;                                  ///< then
  };
  std::string name;
  std::optional<int32_t> device;        ///< whose memory it is
  bool on_host = false;                 ///< neither: it lies in nothing that the log knows
  Level at_peak;                        ///< when most was in use
  uint64_t largest_idle_bytes = 0;      ///< then
  std::optional<Level> at_device_peak;  ///< when the driver had handed out most
  uint64_t reserved_peak_bytes = 0, reserved_bytes = 0;  ///< the most; at the end
  uint64_t failed_count = 0;                             ///< requests that it refused
  uint64_t checks = 0, contradictions = 0;               ///< with what the allocator itself says
  uint64_t count = 0;                                    ///< arenas of this name
  std::optional<uint64_t> capacity_bytes;  ///< the most that they managed at once; none: not said
  /// Of an attached program, where it had handed out blocks before or shares out memory from
  /// before: all is of what it has handed out since, and what it has reserved and idle is not
  /// known.
  struct Older {
    /// Of its blocks from before, at the end, by its own word.
    std::optional<uint64_t> in_use_bytes;
  };
  std::optional<Older> older;
  uint64_t live_bytes = 0;  ///< at the end
  uint64_t peak_bytes = 0;
  int64_t peak_time_ns = 0;
  uint64_t alloc_count = 0;
  std::vector<Part> parts;  ///< at the peak, largest first; with other_bytes they add up to it
  uint64_t other_bytes = 0;
  /// Of what was idle at the device's peak, what no block had used so far. With at_device_peak.
  uint64_t never_used_bytes = 0;
  Largest largest;
  std::vector<Growth> growths;  ///< in the order of time: the largest ones; others in no row
  std::vector<Cause> causes;    ///< largest first; with other_cause_bytes: reserved_peak_bytes
  uint64_t other_cause_bytes = 0;
  /// Of what was idle at the device's peak: in segments with blocks in use, and in what is kept for
  /// CUDA graphs. The rest lies in segments of which all is idle. With at_device_peak.
  uint64_t idle_in_holes_bytes = 0, idle_for_graphs_bytes = 0;
};

/// The driver's memory pools (cudaMallocAsync) of a device together, as far as it was read what
/// they had reserved.
struct DriverPoolsSummary {
  int32_t device = 0;
  uint64_t reserved_peak_bytes = 0;           ///< the most
  int64_t time_ns = 0;                        ///< when they had most
  uint64_t in_use_bytes = 0;                  ///< then
  uint64_t reserved_bytes = 0;                ///< at the end
  std::vector<ArenaSummary::Growth> growths;  ///< as an arena's
  std::vector<ArenaSummary::Cause> causes;    ///< with other_cause_bytes: reserved_peak_bytes
  uint64_t other_cause_bytes = 0;
};

/// The rules that phases and tags were made by; docs/rules.md.
struct RulesSummary {
  std::vector<std::string> sets;
  bool automatic = false;  ///< chosen by the modules that the log has
};

/// A part of what the driver says is in use.
struct LedgerRow {
  std::string cause;  ///< "start", "context", "code" …, "rounding", "unexplained"
  int64_t bytes = 0;
};

/// What the driver said at one instant, taken apart.
struct LedgerView {
  int64_t time_ns = 0;
  uint64_t used_bytes = 0;      ///< of the device, by all processes, as nvidia-smi shows it
  uint64_t tracked_bytes = 0;   ///< of it, handed out by calls that were seen
  std::vector<LedgerRow> rows;  ///< with tracked_bytes they add up to used_bytes
  bool by_failed_call = false;  ///< said by the driver when an allocation failed
};

/// An arena when memory ran out: idle is what it has and nobody uses. What it took while a CUDA
/// graph was captured it keeps for that graph, so that is apart.
struct ArenaSnapshot {
  std::string name;
  uint64_t in_use_bytes = 0, reserved_bytes = 0;
  uint64_t largest_idle_bytes = 0, idle_pieces = 0;  ///< without the graphs'
  uint64_t graph_idle_bytes = 0, largest_graph_idle_bytes = 0;
  bool grows_in_place = false;  ///< maps memory behind what it has, as expandable segments do
  uint64_t idle_bytes() const { return reserved_bytes - in_use_bytes - graph_idle_bytes; }
};

/// One site's memory that was more at each end of a repeated phase than at the one before.
struct GrowthSummary {
  std::string phase;
  std::string source;  ///< of the phase
  std::string side;    ///< "device", "host"
  std::optional<int32_t> device;
  std::string title;
  uint64_t first = 0, last = 0;      ///< instances: from the end of the one to that of the other
  uint64_t grown_bytes = 0;          ///< meanwhile
  bool same_each_time = false;       ///< to the byte
  int64_t begin_ns = 0, end_ns = 0;  ///< these ends
  bool to_the_last = false;          ///< the phase has no later instance that ended
  uint64_t steps() const { return last - first; }
  uint64_t bytes_each() const { return grown_bytes / steps(); }
};

/// Why a request was refused, as far as figures prove it: without this alone it would have been
/// served.
enum class FailureCause {
  kLargerThanCard,  ///< asked for more than the card has
  kOwnLimit,        ///< the arena refused by itself: it did not ask the driver
  kFragmented,      ///< free, but not in one piece
  kGraphArena,      ///< idle in what an arena keeps for CUDA graphs
  kSetApart,        ///< idle in one piece, which the arena did not use: another stream's, for one
  kIdleInArena,     ///< idle in an arena that the request went past
  kPagesOfSmallBlocks,  ///< in the driver's pages, which small blocks fill in part
  kOtherProcess,
  kGrowth,    ///< taken step by step by a site that never gives back
  kTogether,  ///< none of the above alone would have been enough, all of them would
  kFull,      ///< nor would all of them: what is in use and what was asked exceed the card
};
/// As JSON has them: "larger_than_card" …
std::string_view cause_name(FailureCause cause);

struct OutOfMemory {
  int64_t time_ns = 0;
  std::string api;
  std::optional<int32_t> device;
  uint64_t requested_bytes = 0;
  std::string result;
  uint64_t live_bytes = 0;
  std::optional<uint64_t> driver_free_bytes;
  std::optional<uint64_t> driver_total_bytes;
  uint64_t pool_slack_bytes = 0;  ///< reserved by pools and not handed out: theirs alone to give
  uint64_t page_slack_bytes = 0;  ///< in the 2 MiB pages of linear blocks
  uint64_t unmapped_address_bytes = 0;  ///< reserved addresses without memory of cuMemCreate's
  /// The largest request that the driver's free memory still had room for: whole pages of 2 MiB.
  std::optional<uint64_t> largest_fit_bytes;
  std::optional<std::string> phase;
  std::string title;
  std::vector<Holder> holders;
  std::optional<LedgerView> ledger;  ///< what was in use at that instant; none: not known
  // Of an arena that refused.
  std::optional<ArenaSnapshot> refused_by;
  std::optional<uint64_t> limit_bytes;  ///< what it may take at most, if it says so
  uint64_t driver_refusals = 0;         ///< of the same request, before
  uint64_t driver_asked_bytes = 0;      ///< in the last of them
  /// The driver's refusal of a request that its arena refused too: told there.
  bool told_by_arena = false;
  bool refused_by_run_limit = false;  ///< by `gpupeak run --limit`: the card had room

  bool on_host = false;  ///< the host's memory was asked for, not the card's
  // Of a request that the machine refused (result ENOMEM): the limit that it would have passed, in
  // words, its bytes and what was used of it. Empty: none is known.
  std::string host_limit;
  uint64_t host_limit_bytes = 0, host_limit_used_bytes = 0;
  bool only_addresses = false;          ///< addresses were asked for, not memory
  bool for_driver = false;              ///< the driver's own need: how much, nobody says
  bool figures_are_whole = true;        ///< false: one of many, of which not all is kept
  bool of_driver_pool = false;          ///< asked of one of the driver's memory pools
  std::vector<ArenaSnapshot> arenas;    ///< of the device
  std::optional<GrowthSummary> growth;  ///< of what was in use, the largest
  /// What each cause would have made free, largest first; the first one is told as the cause.
  /// Empty: the figures prove none.
  struct Cause {
    FailureCause cause;
    uint64_t bytes = 0;
  };
  std::vector<Cause> causes;
  /// Of kTogether, what is put together.
  std::vector<Cause> parts;
};

/// One thing behind a cause: a library's code, a function's local memory.
struct LedgerItem {
  std::string cause;
  std::string name;
  int64_t bytes = 0;
  uint64_t count = 0;  ///< calls
};

struct DeviceLedgerSummary {
  std::string source;  ///< "nvml" or "cuMemGetInfo"
  LedgerView at_peak;  ///< the reading nearest to the peak: that with most tracked
  LedgerView at_exit;
  uint64_t overlaps = 0;            ///< causes of several threads at the same time
  uint64_t uncertain_readings = 0;  ///< while another thread allocated or read: not used
  std::vector<LedgerItem> items;    ///< largest first
  /// Time (ns) and bytes in use: the observed curve.
  std::vector<std::pair<int64_t, uint64_t>> readings;
};

/// What the driver says of how the device's memory and the host's are one.
struct DeviceMemory {
  bool integrated = false;          ///< the device has none of its own: its memory is the host's
  bool pageable_access = false;     ///< kernels may use what malloc and mmap give
  bool host_page_tables = false;    ///< … by the host's page tables
  bool concurrent_managed = false;  ///< both may use managed memory at the same time
};

/// A device that was to look smaller than it is (`gpupeak run --limit`).
struct CardLimit {
  uint64_t bytes = 0;       ///< what the program saw as the card's memory
  uint64_t real_bytes = 0;  ///< what the card has
  std::string card;         ///< that it stands for; empty: none was named
};

struct DeviceSummary {
  int32_t ordinal = 0;
  std::string uuid;
  std::string name;
  uint64_t total_bytes = 0;
  Metrics metrics;
  std::optional<DeviceLedgerSummary> ledger;  ///< none: the driver was not asked
  std::optional<DeviceMemory> memory;         ///< none: not known
  std::optional<CardLimit> limit;             ///< none: it has what it has
  bool is_integrated() const { return memory && memory->integrated; }
};

struct RunSummary {
  std::vector<std::string> command;
  std::string host;
  uint32_t pid = 0;
  uint32_t ppid = 0;
  std::optional<int32_t> rank;
  std::string start_time;  ///< ISO 8601, UTC
  int64_t duration_ns = 0;
  RunEnd end;
  std::map<std::string, std::string> labels;
};

/// Whether a log has an end, and which.
enum class LogEnd {
  kInOrder,  ///< the process ended, or somebody saw it end by itself
  kKilled,   ///< by a signal, in the midst of what it did
  kRunning,  ///< it has none yet
  kUnknown,
};

struct Quality {
  bool exact = true;               ///< figures that are given are exact, or say their error
  bool only_heap_inexact = false;  ///< all but those that the heap is a part of
  bool events_lost = false;  ///< what no counter tells may be more, or less where frees were lost
  bool log_complete = true;  ///< the process ended by itself and nothing of its log is missing
  LogEnd log_end = LogEnd::kInOrder;
  uint64_t events = 0;         ///< records that were read
  uint64_t device_events = 0;  ///< of them the driver's
  uint64_t host_events = 0;    ///< the heap's calls, recorded or counted, and mappings
  uint64_t dropped_events = 0;
  uint64_t truncated_stacks = 0;
  uint64_t unmatched_frees = 0;     ///< device frees of pointers never seen
  uint64_t unknown_heap_frees = 0;  ///< heap blocks from before the log's start
  uint64_t repairs = 0;
  std::vector<std::string> hooks_missing;
  std::vector<Warning> warnings;
  bool slow_clock = false;     ///< time stamps were taken by a system call's way: dearer, as exact
  bool heap_not_read = false;  ///< its figures are those that the library has counted
  /// Of small heap blocks a sample was recorded, at the end one in so many bytes; 0: all were. What
  /// follows from it has its error beside it.
  uint64_t heap_sample_bytes = 0;
};

struct Summary {
  std::string log_path;
  bool confidential = false;          ///< the log's texts are hashes
  bool names_were_looked_for = true;  ///< in the libraries' files
  bool has_uses = false;              ///< the log says when device memory was used
  uint64_t log_bytes = 0;
  std::string tool_version;  ///< that wrote the log
  uint32_t log_format = 0;
  RunSummary run;
  std::vector<DeviceSummary> devices;
  Metrics metrics;
  std::string grouped_by = "site";  ///< what the rows of peaks are
  std::vector<Peak> peaks;
  std::vector<PhaseSummary> phases;
  std::vector<GrowthSummary> growth;  ///< largest first
  std::vector<ArenaSummary> arenas;
  std::vector<MarkSummary> marks;
  uint64_t mark_count = 0;  ///< in all; marks lists the first ones
  RulesSummary rules;
  std::vector<OutOfMemory> oom;
  uint64_t oom_count = 0;            ///< failures in all; oom lists the first ones
  std::vector<Holder> live_at_exit;  ///< device and host, largest first
  std::vector<Holder> temporaries;   ///< count: blocks freed at once; most first
  Quality quality;
  std::optional<Lowering> lowering;              ///< none: not asked for, or the log cannot tell
  std::optional<WholeRun> whole_run;             ///< none: it is of this process alone
  std::vector<DriverPoolsSummary> driver_pools;  ///< by device; of those that had any

  const Peak* find_peak(const std::string& scope) const {
    for (const Peak& peak : peaks) {
      if (peak.scope == scope) return &peak;
    }
    return nullptr;
  }
};

/// How far a metric may be off that is an estimate from a sample of the heap; none: it is exact, or
/// not there.
std::optional<uint64_t> error_of(const Summary& summary, std::string_view metric);

}  // namespace gpupeak::collector
