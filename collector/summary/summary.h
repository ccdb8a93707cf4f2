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
//   └ whole_run    all processes of the run together, and what was not seen of it
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/summary/what_if.h"
#include "collector/text/function_names.h"

namespace gpupeak::collector {

// What each warning says about the figures, from warning_codes.def.
//
// in    WarningCode::kLogLimitReached
// out   "GP033"; only figures that the heap is a part of are inexact; bounds of device memory hold

/// 7 for "GP007"; 0: the text is no code.
constexpr uint16_t warning_number(std::string_view text) {
  constexpr size_t kDigits = 3;
  if (text.size() != 2 + kDigits || !text.starts_with("GP")) return 0;
  unsigned number = 0;
  for (const char c : text.substr(2)) {
    if (c < '0' || c > '9') return 0;
    number = number * 10 + static_cast<unsigned>(c - '0');
  }
  return static_cast<uint16_t>(number);
}

/// A code may be in no row: a newer gpupeak wrote the report from which it is read.
enum class WarningCode : uint16_t {
  kNone = 0,
#define GPUPEAK_WARNING(code, name, inexact, no_bound) k##name = warning_number(#code),
#include "collector/summary/warning_codes.def"
#undef GPUPEAK_WARNING
};

/// Which figures are not exact any more; kLost: all, since events are missing.
enum class Inexact : uint8_t { kNone, kHeap, kAll, kLost };
Inexact inexact_by(WarningCode code);

/// Whether the lower, or the upper, bound of what a device needs still holds with this warning.
bool keeps_lower_bound(WarningCode code);
bool keeps_upper_bound(WarningCode code);

/// "GP007".
std::string code_text(WarningCode code);
/// "log could not grow"; "GP999" for one that this gpupeak does not know.
std::string phrase_of(WarningCode code);
inline WarningCode parse_warning_code(std::string_view text) {
  return static_cast<WarningCode>(warning_number(text));
}

// A run as a tree of processes: what they held of each GPU at once, who of them held it, and what
// was not seen. Plain values, a part of the Summary of the process that held the most.

// Values that both a process and a run of several processes have.

/// Bytes or counts by name; no value: not measured.
using Metrics = std::map<std::string, std::optional<uint64_t>>;

/// The value of a metric; nullopt if it is not measured or not there.
inline std::optional<uint64_t> metric(const Metrics& metrics, const std::string& name) {
  const auto entry = metrics.find(name);
  return entry == metrics.end() ? std::nullopt : entry->second;
}

enum class ExitKind { kUnknown, kExit, kSignal };

/// How a process ended.
struct RunEnd {
  ExitKind kind = ExitKind::kUnknown;
  int32_t code = 0;  ///< the exit code or the signal
  /// If not, its figures are of a part of its work.
  bool in_order() const { return kind == ExitKind::kExit && code == 0; }
};

/// One site's memory that was more at each end of a repeated phase than at the end before.
struct GrowthSummary {
  std::string phase;
  std::string source;  ///< of the phase
  std::string side;    ///< "device", "host"
  std::optional<int32_t> device;
  std::string title;
  /// Numbers of instances: from the end of `first` to the end of `last`.
  uint64_t first = 0, last = 0;
  uint64_t grown_bytes = 0;          ///< between these two ends
  bool same_each_time = false;       ///< it grew by the same bytes each time
  int64_t begin_ns = 0, end_ns = 0;  ///< when these two instances ended
  bool to_the_last = false;          ///< the phase has no later instance that ended
  /// If it was found by blocks that come evenly and stay, without a phase: how many it keeps of
  /// each step. Then `phase` is "step", and `source` is "blocks".
  uint64_t blocks_each = 0;
  /// Of `grown_bytes` and the number of steps, where they are from a sample.
  std::optional<uint64_t> error_bytes = {};
  uint64_t steps() const { return last - first; }
  uint64_t bytes_each() const { return grown_bytes / steps(); }
};

struct WholeRun {
  /// What the run's processes held at once.
  struct Sum {
    std::string node;                    ///< where it was; empty: the run was on one node
    std::string name;                    ///< for people: "GPU 0 (H200)", "all GPUs", "host"
    std::string uuid;                    ///< of a GPU; empty: not known
    std::optional<int32_t> ordinal;      ///< of a GPU: its number in the first process that uses it
    uint64_t total_bytes = 0;            ///< of the GPU; 0: not known
    std::optional<uint64_t> peak_bytes;  ///< none: not measured of all
    /// The peak may have been less by so much; none: not known.
    std::optional<uint64_t> error_bytes;
    std::optional<uint64_t> sum_of_peaks_bytes;  ///< the sum of the processes' own peaks
    int64_t peak_time_ns = 0;                    ///< since the first process's start
  };
  /// What a process held of a GPU.
  struct OfDevice {
    size_t device = 0;  ///< index into devices
    uint64_t peak_bytes = 0;
    std::optional<uint64_t> at_peak_bytes;  ///< when the run held most of it; none: not known
    Metrics metrics;                        ///< the process's own, of this GPU
  };
  struct Process {
    std::string log;  ///< as a verb takes it
    uint32_t pid = 0;
    std::optional<int32_t> rank;
    std::string program;   ///< file name; empty: not known
    bool started = false;  ///< the one that `gpupeak run` started
    RunEnd end;
    int64_t begin_ns = 0;  ///< since the first process's start
    std::vector<OfDevice> devices;
    std::optional<uint64_t> device_peak_bytes;  ///< of all its GPUs together; none: it used none
    std::optional<uint64_t> host_peak_bytes, rss_peak_bytes;  ///< none: not measured
    /// Usable bytes, as it counted itself; none: it did not.
    std::optional<uint64_t> heap_peak_bytes;
    bool forked = false;  ///< the host's figures are of what came since the fork
    std::string holder;   ///< the site that held most at its peak; empty: nobody looked
    uint64_t holder_bytes = 0;
    std::vector<GrowthSummary> growth;
    bool exact = true, events_lost = false, complete = true;  ///< as Quality has them
    std::string losses;                                       ///< as losses_text() says
    Metrics metrics;  ///< its own; empty: it was not read in full
  };
  /// A process that was seen and left no log.
  struct NotRecorded {
    uint32_t pid = 0;
    std::string program;
    std::string why;  ///< "its LD_PRELOAD was replaced by …"; empty: not known
    bool used_gpu = false;
    bool went_on = false;  ///< it had a log, and then became this program by exec
    std::optional<uint64_t> rss_bytes;
    struct Held {
      std::string device;  ///< for people
      std::string uuid;
      uint64_t bytes = 0;
    };
    std::vector<Held> held;  ///< the most that NVML said of it
  };
  /// Processes that left no log and had little.
  struct Small {
    uint64_t count = 0;
    std::string program;     ///< the largest
    uint64_t rss_bytes = 0;  ///< of it
  };
  /// A process that `run` has left behind and that may still run.
  struct StillRunning {
    uint32_t pid = 0;
    std::string program;
    std::string log;                    ///< as any verb takes it; empty: it has none so far
    std::string why;                    ///< why it will never have one; empty: not known
    std::optional<uint64_t> rss_bytes;  ///< when the report was made
  };
  /// The kernel killed a process of the run because memory was short.
  struct MemoryKill {
    bool likely = false;           ///< only concluded from the signal and the node's free memory
    uint64_t limit_bytes = 0;      ///< of the cgroup; 0: of the node, or of a cgroup above
    std::string cgroup;            ///< its path; empty: the node
    uint64_t kills = 0;            ///< that the kernel counted while the run lasted
    bool started_process = false;  ///< the process that `run` started was killed
  };

  std::string log;  ///< of the started process, which stands for the run
  /// By what they held of GPUs, then of the host; a started one without a GPU last.
  std::vector<Process> processes;
  size_t lead = 0;  ///< index of the process whose Summary this is a part of
  std::vector<Sum> devices;
  std::optional<Sum> all_devices;         ///< none: there is one GPU at most, or several nodes
  std::optional<Sum> host;                ///< none: nobody looked
  std::vector<NotRecorded> not_recorded;  ///< those that used a GPU first
  /// RSS of a process without a log that nobody looked at while it had so much; none: no such.
  std::optional<uint64_t> unseen_rss_bytes;
  std::optional<Small> small;
  std::vector<StillRunning> still_running;
  std::optional<MemoryKill> memory_kill;
  /// The metrics of the run: the peaks of the sums above, counts added up, and where there is no
  /// sum the figure of the largest process. If not every process was read in full: only what was
  /// seen from outside.
  Metrics metrics;
  size_t lost_logs = 0;      ///< logs that the run's record names and that are not there
  bool is_recorded = false;  ///< `run` has written what it saw; else nobody looked for others
  bool watched = false;      ///< `run` looked for processes without a log

  bool has_several() const { return processes.size() > 1; }
  size_t gpu_processes() const {
    size_t count = 0;
    for (const Process& process : processes) count += process.device_peak_bytes.value_or(0) > 0;
    return count;
  }
};

struct Warning {
  WarningCode code = WarningCode::kNone;
  std::string message;
  /// For a warning about a module: the module's file name without its folder. For LogCouldNotGrow:
  /// from when to when, if recording went on. Else empty.
  std::string about;
};

struct Frame {
  uint64_t address = 0;  ///< return address in the process
  std::string module;    ///< file name without its folder; empty: not known
  uint64_t offset = 0;   ///< ELF address in the module, or 0
  std::string function;  ///< demangled; empty: not known
  std::string file;
  int line = 0;  ///< 0: not known
  /// Where no line tells calls of a function apart: which of them it is, in the order of its code.
  /// 0: they are not told apart.
  uint32_t call = 0;
  bool one_block = false;  ///< memory was taken at this call once
  bool is_python = false;  ///< a function in Python; `module` is its file
  NameSource name_source = NameSource::kNone;
};

/// One part of a site: a frame, or a run of frames of one library that have no names.
struct SitePart {
  Frame frame;
  uint32_t run = 0;  ///< how many frames without a name it stands for; 0: a frame with a name
  bool of_library = false;  ///< the run is known by its library and length, not by an address
};

/// What a kernel may do with memory that it was given. kRead and kWritten follow from the kernel's
/// signature: `float const*` is only read, `float*` may be written. kGiven: there is no signature,
/// or the address came in a structure.
enum class KernelAccess : uint8_t { kRead, kWritten, kGiven };
/// As JSON has them: "read", "written", "given".
std::string_view access_name(KernelAccess access);

/// What a row's memory was seen to be used for: by copies, fills and launches. Kernels that find
/// its address in other memory are not seen.
struct BufferRole {
  /// A kernel that got addresses in the memory. One that reads at one place and writes at another
  /// comes twice.
  struct Kernel {
    std::string name;     ///< demangled, with its parameters where the name has them
    std::string library;  ///< whose kernel: "cuBLAS", "cuDNN" …; empty: the program's own
    KernelAccess access = KernelAccess::kGiven;
    std::vector<uint32_t> arguments;  ///< numbers of its parameters, from 0 on, ascending
    uint64_t launches = 0;            ///< that were seen; the real number if !launches_sampled
  };
  // Calls that were seen.
  uint64_t copied_in = 0;    ///< from the host
  uint64_t copied_out = 0;   ///< to the host
  uint64_t copied_to = 0;    ///< from other memory of a device
  uint64_t copied_from = 0;  ///< to other memory of a device
  uint64_t filled = 0;
  uint64_t textures = 0;          ///< texture and surface objects that were made of it
  uint64_t addresses_copied = 0;  ///< its address was copied in: kernels may use it at any time
  std::vector<Kernel> kernels;    ///< most launches first
  bool passed_on = false;         ///< to another process or device, or to a graphics library
  uint64_t unused_bytes = 0;      ///< of those blocks of the row that were never seen used
  bool launches_sampled = false;  ///< not every launch was looked at
  /// None: no use, or some launches were not looked at.
  std::optional<int64_t> first_use_ns, last_use_ns;
  /// When the first of the row's blocks was allocated, and the last one freed. None: one lived on.
  std::optional<int64_t> allocated_ns, freed_ns;
  /// If the row's blocks are not all used alike: those of one size and use, from 5 % of the peak
  /// on, largest first. Not told of sampled launches.
  std::vector<struct BlocksAlike> alike;

  bool was_seen_used() const {
    return copied_in + copied_out + copied_to + copied_from + filled + textures + addresses_copied +
               kernels.size() >
           0;
  }
};

/// Blocks of one row that have the same size and the same uses, such as those that a loop takes.
struct BlocksAlike {
  uint64_t bytes = 0, count = 0;
  BufferRole role;
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
  int64_t longest_life_ns = 0;        ///< of the freed blocks; device kinds only
  /// If `bytes` is an estimate from a sample: 95 % of such estimates are off by so much or less.
  std::optional<uint64_t> error_bytes;
  std::vector<SitePart> parts;  ///< what the title is made of; empty: the row stands for no code
  uint32_t telling_part = 0;  ///< index of the part by which it differs from rows that begin alike
  /// Of a peak's rows, device memory alone. None: the log does not have it.
  std::optional<BufferRole> role;
  /// Of a peak's rows, the host's alone: what of the site's memory was resident at the look that
  /// saw most (host.memory.by_site_bytes). None: not known.
  struct Resident {
    uint64_t least_bytes = 0, most_bytes = 0;
  };
  std::optional<Resident> resident;

  /// Whether the code is known by addresses alone. Decided by where its names came from, since a
  /// title may look like anything.
  bool has_no_name() const;
};

/// What one tag has of a peak.
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
  /// The figure is the counters', larger than the log's; its instant is not known.
  bool counted = false;
  /// Largest first; what no rule or tag names comes last. They add up to bytes. Empty: nothing is
  /// tagged, or the scope is that of one kind.
  std::vector<TagShare> tags;
};

/// One side (device or host) of instances of a phase that are alike.
struct PhaseInstanceSide {
  uint64_t start_bytes = 0;             ///< of the first instance
  uint64_t peak_bytes = 0;              ///< the largest of any instance
  uint64_t end_bytes = 0;               ///< of the last instance
  std::optional<int64_t> kept_bytes;    ///< of all instances together; none: a range
  std::optional<uint64_t> alloc_count;  ///< of all instances together; none: a range
};

struct PhaseInstances {
  uint64_t first = 0, last = 0;  ///< numbers from 1 on
  uint64_t count = 0;
  int64_t begin_ns = 0;
  std::optional<int64_t> end_ns;  ///< none: the log ends inside
  int64_t open_ns = 0;            ///< time within, of all instances together
  bool alike = true;              ///< false: they differ, and were too many to be listed apart
  PhaseInstanceSide device;
  std::optional<PhaseInstanceSide> host;  ///< none: not measured
};

/// One side (device or host) of the calls of a phase.
struct PhaseCallsSide {
  int64_t grown_bytes = 0;  ///< from the end of the first call to the end of the last
  /// From one call's end to the next; none: there was one call.
  std::optional<int64_t> least_growth, most_growth;
  uint64_t largest = 0;             ///< number of the call that rose furthest above its start
  uint64_t largest_rise_bytes = 0;  ///< by how much it rose
  uint64_t largest_peak_bytes = 0;  ///< the peak of that call, with what was live before it
};

/// For a phase that a rule makes of each call of a function (docs/rules.md).
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
  uint64_t session = 0;  ///< number of the ONNX Runtime session, from 1 on; 0: none
  uint64_t count = 0;
  /// Names in this row: they differ in numbers alone, or are one library's.
  uint64_t name_count = 1;
  int64_t begin_ns = 0;
  std::optional<int64_t> end_ns;  ///< none: the log ends inside it
  int64_t open_ns = 0;            ///< time within, of all instances together
  Metrics metrics;
  /// Alike ones are one entry; a phase that came once has one entry.
  std::vector<PhaseInstances> instances;
  std::optional<PhaseCalls> calls;  ///< none: not by call, or several names in one row
  /// The site that held most at once among the phase's own allocations.
  std::optional<Holder> biggest_new_device_site, biggest_new_host_site;
};

struct MarkSummary {
  std::string name;
  std::string source;
  std::string domain;    ///< of NVTX; empty: the default domain, or none
  std::string category;  ///< empty: none
  int64_t time_ns = 0;
  std::optional<uint32_t> thread_id;                 ///< none: the mark came from outside
  std::optional<uint64_t> device_bytes, host_bytes;  ///< live then
};

/// The arenas of one name in one place: what they had in use of the memory that they manage. No
/// other sum counts this.
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
  /// A moment at which it became larger than ever: which request made it take how much.
  struct Growth {
    std::string title;  ///< the site of the request
    int64_t time_ns = 0;
    uint64_t bytes = 0, asked_bytes = 0;
    uint64_t in_use_bytes = 0, reserved_bytes = 0;  ///< in use before, reserved after
  };
  /// The moment at which it had reserved most, and who was in it then.
  struct Largest {
    int64_t time_ns = 0;
    uint64_t in_use_bytes = 0;
    std::vector<Part> parts;  ///< largest first; with other_bytes they add up to in_use_bytes
    uint64_t other_bytes = 0;
  };
  /// A site whose requests made it take segments that it had when it was largest.
  struct Cause {
    std::string title;
    uint64_t bytes = 0;
    uint64_t segments = 0;
    /// The largest segment that it ever took for this site, and the request for it.
    uint64_t largest_bytes = 0, largest_asked_bytes = 0;
    uint64_t in_use_bytes = 0;  ///< of the arena, when it took that segment
    int64_t time_ns = 0;        ///< when it took that segment
  };
  std::string name;
  std::optional<int32_t> device;    ///< whose memory it manages
  bool on_host = false;             ///< if neither is set, it lies in nothing that the log knows
  Level at_peak;                    ///< when most was in use
  uint64_t largest_idle_bytes = 0;  ///< the largest idle piece then
  std::optional<Level> at_device_peak;                   ///< when the driver had handed out most
  uint64_t reserved_peak_bytes = 0, reserved_bytes = 0;  ///< the most that it reserved; at the end
  uint64_t failed_count = 0;                             ///< requests that it refused
  /// Comparisons with the allocator's own figures; those that differed.
  uint64_t checks = 0, contradictions = 0;
  uint64_t count = 0;  ///< arenas of this name
  /// The most that they managed at once; none: they do not say.
  std::optional<uint64_t> capacity_bytes;
  /// Set for an attached program, if the arena had handed out blocks before the attach or shares
  /// out memory from before it. All figures are then of what it has handed out since, and what is
  /// reserved and idle is not known.
  struct Older {
    /// What its blocks from before have in use at the end, as it says itself; none: it does not
    /// say.
    std::optional<uint64_t> in_use_bytes;
  };
  std::optional<Older> older;
  uint64_t live_bytes = 0;  ///< at the end
  uint64_t peak_bytes = 0;
  int64_t peak_time_ns = 0;
  uint64_t alloc_count = 0;
  std::vector<Part> parts;  ///< at the peak, largest first; with other_bytes they add up to it
  uint64_t other_bytes = 0;
  /// The part of the idle bytes at the device's peak that no block had used until then. Only with
  /// at_device_peak.
  uint64_t never_used_bytes = 0;
  Largest largest;
  std::vector<Growth> growths;  ///< the largest ones, in the order of time; others are left out
  /// Largest first; with other_cause_bytes they add up to reserved_peak_bytes.
  std::vector<Cause> causes;
  uint64_t other_cause_bytes = 0;
  /// Parts of the idle bytes at the device's peak: in segments with blocks in use, and kept for
  /// CUDA graphs. The rest lies in segments that are all idle. Only with at_device_peak.
  uint64_t idle_in_holes_bytes = 0, idle_for_graphs_bytes = 0;
};

/// The driver's memory pools (cudaMallocAsync) of one device together, as far as their reserved
/// bytes were read.
struct DriverPoolsSummary {
  int32_t device = 0;
  uint64_t reserved_peak_bytes = 0;           ///< the most that they had reserved
  int64_t time_ns = 0;                        ///< when they had reserved most
  uint64_t in_use_bytes = 0;                  ///< at that time
  uint64_t reserved_bytes = 0;                ///< reserved at the end
  std::vector<ArenaSummary::Growth> growths;  ///< as of an arena
  /// With other_cause_bytes they add up to reserved_peak_bytes.
  std::vector<ArenaSummary::Cause> causes;
  uint64_t other_cause_bytes = 0;
};

/// The rules by which phases and tags were made (docs/rules.md).
struct RulesSummary {
  std::vector<std::string> sets;
  bool automatic = false;  ///< gpupeak chose them by the modules in the log
};

/// A part of what the driver says is in use.
struct LedgerRow {
  std::string cause;  ///< "start", "context", "code" …, "rounding", "unexplained"
  int64_t bytes = 0;
};

/// Another process that had memory of the device then.
struct LedgerProcess {
  uint32_t pid = 0;  ///< as NVML numbers it: in a container mostly the host's number
  std::string name;  ///< empty: /proc did not show it
  uint64_t bytes = 0;
  bool of_run = false;  ///< it is one of the run's processes, and has a log of its own
};

/// What the driver said was in use at one instant, split by causes.
struct LedgerView {
  int64_t time_ns = 0;
  /// In use of the device, as nvidia-smi shows it: by this process, if that is known, else by all.
  uint64_t used_bytes = 0;
  bool of_process = false;       ///< used_bytes is this process's
  uint64_t card_used_bytes = 0;  ///< by all processes
  uint64_t tracked_bytes = 0;    ///< the part of that which seen calls handed out
  std::vector<LedgerRow> rows;   ///< with tracked_bytes they add up to used_bytes
  bool by_failed_call = false;   ///< said by the driver when an allocation failed
  /// When the driver was asked, if that was before time_ns: what was handed out since is added.
  std::optional<int64_t> read_ns = {};
  std::optional<uint64_t> others_bytes = {};  ///< by all other processes; none: not known
  std::vector<LedgerProcess> others = {};     ///< the largest of them
};

/// An arena when memory ran out. Idle is what it has and nobody uses. What it took while a CUDA
/// graph was captured it keeps for that graph; this is counted apart.
struct ArenaSnapshot {
  std::string name;
  uint64_t in_use_bytes = 0, reserved_bytes = 0;
  uint64_t largest_idle_bytes = 0, idle_pieces = 0;  ///< without those kept for graphs
  uint64_t graph_idle_bytes = 0, largest_graph_idle_bytes = 0;
  bool grows_in_place = false;  ///< maps memory behind what it has, as expandable segments do
  uint64_t idle_bytes() const { return reserved_bytes - in_use_bytes - graph_idle_bytes; }
};

/// Why a request was refused, as far as figures prove it: without this alone it would have been
/// served.
enum class FailureCause {
  kLargerThanCard,  ///< asked for more than the card has
  kOwnLimit,        ///< the arena did not ask the driver, or a limit of the machine was reached
  kFragmented,      ///< free, but not in one piece
  kGraphArena,      ///< idle in memory that an arena keeps for CUDA graphs
  kSetApart,        ///< idle in one piece that the arena did not use, for instance another stream's
  kIdleInArena,     ///< idle in an arena that the request was not made to
  kPagesOfSmallBlocks,  ///< in the driver's pages, which small blocks fill in part
  kOtherProcess,
  kGrowth,    ///< taken step by step by a site that never gives back
  kTogether,  ///< none of the above alone would have been enough, all of them would
  kFull,  ///< even all of them are too little: what is in use and was asked for exceeds the card
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
  /// Reserved by memory pools and not handed out: only they can hand it out.
  uint64_t pool_slack_bytes = 0;
  uint64_t page_slack_bytes = 0;  ///< unused in the 2 MiB pages of linear blocks
  /// Reserved addresses to which no memory of cuMemCreate is mapped.
  uint64_t unmapped_address_bytes = 0;
  /// The largest request that the driver's free memory still had room for: whole pages of 2 MiB.
  std::optional<uint64_t> largest_fit_bytes;
  std::optional<std::string> phase;
  std::string title;
  std::vector<Holder> holders;
  std::optional<LedgerView> ledger;  ///< what was in use at that instant; none: not known
  // If an arena refused:
  std::optional<ArenaSnapshot> refused_by;
  std::optional<uint64_t> limit_bytes;  ///< what it may take at most, if it says so
  /// How often the driver had refused this request to the arena before.
  uint64_t driver_refusals = 0;
  /// What the arena asked of the driver in the last of these refusals.
  uint64_t driver_asked_bytes = 0;
  /// The driver refused it to an arena, which then refused too: the arena's entry tells of it.
  bool told_by_arena = false;
  bool refused_by_run_limit = false;  ///< by `gpupeak run --limit`: the card had room

  bool on_host = false;  ///< the host's memory was asked for, not the card's
  // If the machine refused (result ENOMEM): the limit that the request would have exceeded, in
  // words, the limit's bytes, the bytes used of it, and those of them that gpupeak uses. Empty: no
  // limit is known.
  std::string host_limit;
  uint64_t host_limit_bytes = 0, host_limit_used_bytes = 0, host_limit_own_bytes = 0;
  bool only_addresses = false;  ///< addresses were asked for, not memory
  bool for_driver = false;      ///< the driver needed it for itself; how much is not known
  /// False: there were many failures, and not all is kept of this one.
  bool figures_are_whole = true;
  bool of_driver_pool = false;          ///< asked of one of the driver's memory pools
  std::vector<ArenaSnapshot> arenas;    ///< of the device
  std::optional<GrowthSummary> growth;  ///< the largest growth in what was in use
  /// What each cause would have made free, largest first; the first one is told as the cause.
  /// Empty: the figures prove none.
  struct Cause {
    FailureCause cause;
    uint64_t bytes = 0;
  };
  std::vector<Cause> causes;
  /// For kTogether: the causes that are put together.
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
  uint64_t overlaps = 0;            ///< causes that several threads had at the same time
  uint64_t uncertain_readings = 0;  ///< not used, since another thread allocated or read meanwhile
  std::vector<LedgerItem> items;    ///< largest first
  /// Time (ns) and bytes in use: the observed curve.
  std::vector<std::pair<int64_t, uint64_t>> readings;
};

/// What the driver says about how the device's and the host's memory are one.
struct DeviceMemory {
  bool integrated = false;          ///< the device has none of its own: its memory is the host's
  bool pageable_access = false;     ///< kernels may use what malloc and mmap give
  bool host_page_tables = false;    ///< kernels reach that by the host's page tables
  bool concurrent_managed = false;  ///< both may use managed memory at the same time
};

/// A device that was to look smaller than it is (`gpupeak run --limit`).
struct CardLimit {
  uint64_t bytes = 0;       ///< what the program saw as the card's memory
  uint64_t real_bytes = 0;  ///< what the card has
  std::string card;         ///< the card that it stands for; empty: none was named
};

struct DeviceSummary {
  int32_t ordinal = 0;
  std::string uuid;
  std::string name;
  uint64_t total_bytes = 0;
  Metrics metrics;
  std::optional<DeviceLedgerSummary> ledger;  ///< none: the driver was not asked
  std::optional<DeviceMemory> memory;         ///< none: not known
  std::optional<CardLimit> limit;             ///< none: it looks as large as it is
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

/// How a log ends.
enum class LogEnd {
  kInOrder,  ///< the process ended, or somebody saw it end by itself
  kKilled,   ///< a signal ended the process in the midst of what it did
  kRunning,  ///< it has no end yet: the process runs
  kUnknown,
};

struct Quality {
  bool exact = true;               ///< figures that are given are exact, or say their error
  bool only_heap_inexact = false;  ///< only figures that the heap is a part of are inexact
  /// Figures that no counter tells may be too low, or too high if frees were lost.
  bool events_lost = false;
  bool log_complete = true;  ///< the process ended by itself and nothing of its log is missing
  LogEnd log_end = LogEnd::kInOrder;
  uint64_t events = 0;         ///< records that were read
  uint64_t device_events = 0;  ///< those of the driver
  uint64_t host_events = 0;    ///< the heap's calls, recorded or counted, and mappings
  uint64_t dropped_events = 0;
  uint64_t truncated_stacks = 0;
  uint64_t unmatched_frees = 0;     ///< device frees of pointers never seen
  uint64_t unknown_heap_frees = 0;  ///< heap blocks from before the log's start
  uint64_t repairs = 0;
  std::vector<std::string> hooks_missing;
  std::vector<Warning> warnings;
  /// Time stamps came from a system call, not from the TSC: dearer, but as exact.
  bool slow_clock = false;
  bool heap_not_read = false;  ///< the heap's figures are those that the library counted
  /// If only a sample of the small heap blocks was recorded: one in so many bytes, at the end; 0:
  /// all were recorded. Figures that follow from the sample have their error beside them.
  uint64_t heap_sample_bytes = 0;
  bool others_blocks_alone = false;  ///< a sample of what CUDA's calls and starting libraries take

  bool warns_of(WarningCode code) const {
    return std::ranges::any_of(warnings, [&](const Warning& one) { return one.code == code; });
  }
};

// What a log's largest peak of a device would be with other settings of its pools. collector/fit
// computes it by replay, the report shows it.

struct Lowering {
  /// One setting alone, and the bounds of the peak with it. Equal bounds: it is exact.
  struct Row {
    PoolSetting setting{};
    uint64_t least_bytes = 0;
    std::optional<uint64_t> most_bytes;  ///< none: not known
    int64_t time_ns = 0;                 ///< when the larger bound is reached
    std::string about;                   ///< the rows of the two blocks of kOneForTwo; else empty
  };
  std::string scope;  ///< "device:0"; empty: no pool has such a setting
  uint64_t before_bytes = 0;
  /// Requests to the pools, if they are too many to be tried; else 0.
  uint64_t untried_requests = 0;
  std::vector<Row> rows;  ///< settings that save a hundredth or more, the largest saving first
};

struct Summary {
  std::string log_path;
  bool confidential = false;          ///< the log's texts are hashes
  bool names_were_looked_for = true;  ///< names were looked for in the libraries' files
  bool has_uses = false;              ///< the log says when device memory was used
  uint64_t log_bytes = 0;
  std::string tool_version;  ///< of the gpupeak that wrote the log
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
  /// Most first; their `count` is of blocks that were freed at once.
  std::vector<Holder> temporaries;
  Quality quality;
  std::optional<Lowering> lowering;              ///< none: not asked for, or the log cannot tell
  std::optional<WholeRun> whole_run;             ///< none: it is of this process alone
  std::vector<DriverPoolsSummary> driver_pools;  ///< by device; of those that had any

  const Peak* find_peak(const std::string& scope) const {
    const auto found = std::ranges::find(peaks, scope, &Peak::scope);
    return found == peaks.end() ? nullptr : &*found;
  }
};

/// The error of a metric that is an estimate from a sample of the heap; none: it is exact, or not
/// there.
std::optional<uint64_t> error_of(const Summary& summary, std::string_view metric);

}  // namespace gpupeak::collector
