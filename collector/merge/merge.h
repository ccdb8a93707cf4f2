// Merges several processes of one run: what they needed at the same time. `gpupeak merge` calls it.
//
// in    a record of each process, each from a log of its own
// out   for each machine, the peak of the sum over its processes, for each GPU and for the host;
//       which ranks differ from the others; who ran out of memory, and when
//
//   rank 0 on GPU 0   6 GiB at 10 s, 2 GiB at 20 s
//   rank 1 on GPU 0   1 GiB at 10 s, 5 GiB at 20 s
//   merged            GPU 0 needs 7 GiB, not 11
//
// The result depends only on the set of records, not on their order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/log/log_reader.h"
#include "collector/rules/rule_book.h"
#include "collector/summary/summary.h"
#include "collector/summary/summary_json.h"
#include "collector/text/lists.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

// All that `gpupeak merge` keeps of one log: a few KiB, and what was held over time. A set of such
// records is merged, or makes a partial result.

// What one process held over time, in bounded memory: steps of a few bytes each. If there are too
// many, neighbours that differ little become one step, as high as the higher of them. So the curve
// is never below the truth, and error_bytes() tells how far above it may be.

/// Steps by time. Each is stored as the difference from the one before.
class StepList {
 public:
  void add(uint64_t ns, uint64_t bytes);
  size_t coded_bytes() const { return data_.size(); }
  uint64_t last_ns() const { return last_ns_; }

  class Reader {
   public:
    explicit Reader(const StepList& steps)
        : at_(steps.data_.data()), end_(at_ + steps.data_.size()) {}
    bool next();
    uint64_t ns() const { return ns_; }
    uint64_t bytes() const { return bytes_; }
    bool grows() const { return grows_; }

   private:
    const uint8_t* at_;
    const uint8_t* end_;
    uint64_t ns_ = 0, bytes_ = 0;
    bool grows_ = false;
  };

 private:
  void put(uint64_t value);

  std::vector<uint8_t> data_;
  uint64_t last_ns_ = 0, last_bytes_ = 0;
};

class HeldCurve {
 public:
  /// Bytes that the curves of one process may take together.
  static constexpr size_t kRoomBytes = 128 << 10;

  HeldCurve() = default;
  /// Makes a curve again from its steps(), peak_bytes() and error_bytes().
  HeldCurve(StepList steps, uint64_t peak_bytes, uint64_t error_bytes)
      : steps_(std::move(steps)), peak_bytes_(peak_bytes), error_bytes_(error_bytes) {}

  /// A time that runs backwards, as in a damaged log, counts as the last one.
  void add(uint64_t ns, uint64_t bytes);
  /// Call it after the last add(). Joins steps until they fit into so many bytes.
  void finish(size_t room_bytes) { coarsen(room_bytes); }
  /// Call it after finish(). Nothing is held from this time on.
  void end_at(uint64_t ns) { steps_.add(std::max(ns, steps_.last_ns()), 0); }
  /// Tells that the value was at least this between the last step and the next one.
  void raise_peak(uint64_t bytes) { peak_bytes_ = std::max(peak_bytes_, bytes); }

  /// Call these after finish().
  const StepList& steps() const { return steps_; }
  uint64_t peak_bytes() const { return peak_bytes_; }
  uint64_t error_bytes() const { return error_bytes_; }

 private:
  void gather(uint64_t ns, uint64_t bytes);
  void flush();
  void coarsen(size_t room_bytes);

  struct Bucket {
    uint64_t ns, least, most;
  };
  StepList steps_;
  std::optional<Bucket> bucket_;  ///< changes that are not in steps_ yet
  uint64_t last_ns_ = 0;
  uint64_t peak_bytes_ = 0;
  uint64_t tolerance_ = 0;  ///< by how much the values of one step may differ
  uint64_t error_bytes_ = 0;
};

struct HeldPart {
  std::string name;
  uint64_t bytes = 0;
};

/// A process's own peak, and who held it.
struct OwnPeak {
  std::string side;  ///< "device": all GPUs of the process together; "host"
  uint64_t bytes = 0;
  int64_t time_ns = 0;  ///< since the process's start
  std::optional<std::string> phase;
  std::vector<HeldPart> tags;   ///< they add up to `bytes`; empty: nothing is tagged
  std::vector<HeldPart> sites;  ///< largest first; with other_bytes they add up to `bytes`
  uint64_t other_bytes = 0;
};

/// The last request that was refused because memory was short.
struct Refusal {
  std::string api;
  std::optional<int32_t> device;
  uint64_t requested_bytes = 0;
  int64_t time_ns = 0;  ///< since the process's start
  std::optional<std::string> phase;
  std::string site;
  std::string why;     ///< a sentence; empty: nothing is known
  uint64_t count = 0;  ///< refused requests of this kind
};

struct ProcessRecord {
  uint64_t id = 0;  ///< the log's random number
  std::string log_path;
  bool confidential = false;
  RunSummary run;  ///< without labels
  Quality quality;
  std::string boot;                 ///< empty: not known
  uint64_t process_start_time = 0;  ///< with the pid it is unique within a boot
  uint64_t start_realtime_ns = 0;
  // These are on the clock that all processes of a boot share.
  uint64_t start_monotonic_ns = 0;
  uint64_t last_ns = 0;  ///< when the last event was
  uint64_t end_ns = 0;   ///< when the process had ended; 0: not known
  bool host_measured = false;
  std::vector<DeviceSummary> devices;       ///< only their identity, no figures
  std::map<std::string, HeldCurve> curves;  ///< "device:N"; "device" if there are several; "host"
  std::vector<OwnPeak> peaks;
  std::optional<Refusal> refusal;
  /// Metrics of what was resident; none: nothing is known of it.
  std::optional<std::map<std::string, uint64_t>> resident;
  /// Of the process that `run` started, once the run has ended: the ids of all its logs.
  std::optional<std::vector<uint64_t>> ended_with;

  void note_resident(const Metrics& metrics);
  /// The most that was resident and its own; none: not known.
  std::optional<uint64_t> own_memory() const {
    const auto* const bytes = resident ? value_in(*resident, "host.memory.peak_bytes") : nullptr;
    return bytes != nullptr ? std::optional(*bytes) : std::nullopt;
  }
  /// When the machine was started, in real time.
  uint64_t boot_realtime_ns() const { return start_realtime_ns - start_monotonic_ns; }
  const OwnPeak* find_peak(std::string_view side) const {
    const auto found = std::ranges::find(peaks, side, &OwnPeak::side);
    return found == peaks.end() ? nullptr : &*found;
  }
  /// The program's file name; empty: not known. Some servers overwrite their arguments with a
  /// status ("nginx: worker process", "redis-server unixsocket:/run/redis"); its first word counts
  /// then.
  std::string program() const {
    if (run.command.empty()) return "";
    std::string name = run.command.front();
    if (!name.starts_with('/') && !name.starts_with('.')) {
      name = name.substr(0, name.find(' '));
      if (name.ends_with(':')) name.pop_back();
    }
    return std::string(file_name(name));
  }
};

// The result of merging several processes of one run, as plain values: what each node held at once,
// who has more than the others, what ended the job.

/// What one process has of a sum.
struct MergedPart {
  size_t process = 0;
  std::optional<uint64_t> peak_bytes;     ///< its own peak; none: not measured
  std::optional<uint64_t> at_peak_bytes;  ///< what it held at the peak of the sum
};

GPUPEAK_FIELDS(HeldPart, name, bytes)
GPUPEAK_FIELDS(OwnPeak, side, bytes, time_ns, phase, tags, sites, other_bytes)
GPUPEAK_FIELDS(MergedPart, process, peak_bytes, at_peak_bytes)

/// The scope of what was resident of processes and their own. When it was most is not known.
inline constexpr std::string_view kResidentScope = "resident";

/// Of a node, so without its name. Times are the job's. The host has no error, since its events
/// have coarse times.
struct MergedSum : WholeRun::Sum {
  /// "device:N" of the first process that uses that GPU, "device", "host", kResidentScope.
  std::string scope;
  std::vector<MergedPart> parts;  ///< processes that have such memory
};

/// A machine between two boots: its processes share a clock.
struct MergedNode {
  std::vector<std::string> hosts;  ///< its names: several if containers have their own
  std::string boot;                ///< empty: not known
  std::vector<size_t> processes;
  std::vector<MergedSum> sums;

  std::string name() const;
  const MergedSum* find_sum(std::string_view scope) const {
    const auto found = std::ranges::find(sums, scope, &MergedSum::scope);
    return found == sums.end() ? nullptr : &*found;
  }
};

/// A peak, tag or site of which one process has more or less than the others that do the same work.
struct Outlier {
  size_t process = 0;
  std::string side;  ///< "device", "host"
  std::string by;    ///< "peak", "tag", "site"
  std::string name;  ///< the tag's or site's
  uint64_t bytes = 0;
  std::optional<uint64_t> median_bytes;  ///< none: too few records have it
  int64_t excess_bytes = 0;              ///< at least so much beyond the median
  size_t compared = 0;                   ///< how many processes, with this one
};

/// A process that did not end in order.
struct Casualty {
  enum class How {
    kRefused,    ///< it ended after a refused request
    kFailed,     ///< it ended with an exit code, or a signal that it caused
    kSignalled,  ///< a signal that others send ended it: a launcher's, the kernel's, a person's
  };
  size_t process = 0;
  How how = How::kFailed;
  int64_t time_ns = 0;  ///< in the job: when the request was refused, or when it had ended
};

struct JobEnd {
  std::vector<Casualty> casualties;  ///< the first in time first
  size_t in_order = 0;               ///< processes that ended in order
  size_t not_said = 0;     ///< ended, but it is not known how: recorded without `gpupeak run`
  size_t without_end = 0;  ///< killed, or still running
};

struct Merged {
  std::vector<ProcessRecord> processes;  ///< by rank, then by start
  std::vector<MergedNode> nodes;         ///< by their first process
  std::vector<size_t> node_of;           ///< for each process: its node
  std::vector<Outlier> outliers;         ///< largest difference first
  JobEnd end;
  std::vector<std::string> notes;  ///< why a peak is an upper bound and not exact
};

/// Compares each process's own peak, and what holds it by tag and by site, with the median of the
/// ranks that run the same program (without ranks: of the processes). An outlier differs from the
/// median by more than kDeviations times the median of all such differences, and by at least a
/// hundredth of the median peak. Medians are used since a few extreme ranks do not move them.
std::vector<Outlier> find_outliers(const Merged& merged);

/// The run of a process has ended, so this has ended too, and its log is whole, since the kernel
/// keeps a log's pages. So it counts as ended in order if nobody saw its end, or if a signal asked
/// it to end, as a pool does with its workers. That is not so for the started process: its end is
/// the run's.
void note_end_of_run(bool is_started, const RunEnd& end, Quality& quality);

class ProcessSet {
 public:
  /// Reads a log and adds its record. Throws LogError, and UsageError if add_log() has added this
  /// log before.
  void add_log(const std::string& path, const Reading& reading, const Progress& progress = {});
  /// Adds a record of a partial result. If its log was added before, it counts once: the record
  /// that was read last counts. `is_log`: it was read from the log itself.
  void add(ProcessRecord record, bool is_log = false);

  size_t size() const { return records_.size(); }
  /// How many times a log was added again.
  size_t repeated() const { return repeated_; }
  /// The records by rank, then by start, in whatever order they were added.
  std::vector<ProcessRecord> take();

 private:
  struct Known {
    ProcessRecord record;
    bool is_log;
  };

  std::map<uint64_t, Known> records_;
  size_t repeated_ = 0;
};

/// Merges at least one process.
Merged merge(std::vector<ProcessRecord> processes);

// Finds which processes share a clock, and turns their times into times of the job. Adds up what
// the processes of a node held at once: of each GPU, of all GPUs, of the host.

/// Fills nodes and node_of, without sums. Processes of one boot share a clock. A log that does not
/// name its boot counts as one of the boot of that host that started at the same time.
void find_nodes(Merged& merged);

/// Ends a program's curves at the exec that replaced it: its memory is gone then, though its log
/// has no end.
void end_by_exec(Merged& merged);

/// Turns times of all nodes into one scale: nanoseconds since the job's first process began. It is
/// exact within a node; between nodes it is wrong by as much as their wall clocks differ.
class JobClock {
 public:
  explicit JobClock(const Merged& merged);
  /// The job's time for a time on the node's clock.
  int64_t job_ns(size_t node, uint64_t monotonic_ns) const {
    return static_cast<int64_t>(monotonic_ns - begins_[node].monotonic_ns +
                                (begins_[node].realtime_ns - first_realtime_ns_));
  }

 private:
  struct Begin {
    uint64_t monotonic_ns, realtime_ns;
  };
  std::vector<Begin> begins_;  ///< by node: of its first process
  uint64_t first_realtime_ns_ = UINT64_MAX;
};

/// Fills the sums of all nodes. GPUs are told apart by their UUIDs, since processes may number them
/// differently.
void add_node_sums(Merged& merged, const JobClock& clock);

// Makes the ProcessRecord of a log.

/// What the log's first pages tell.
ProcessRecord identity_of(const LogReader& log, const std::string& path);
/// Makes a summary with `options` on the way; `summary` gets it unless it is nullptr. The record
/// has `options.top` sites for each peak. Throws LogError.
ProcessRecord read_process(const LogReader& log, const Options& options, const Progress& progress,
                           Summary* summary);
/// The record with as many sites as `merge` compares.
ProcessRecord read_process(const std::string& path, const Reading& reading,
                           const Progress& progress = {});

// Reads and writes partial results of `gpupeak merge`: files with the records of some logs, small
// enough to be taken to where all are merged. A file is compressed with zstd and has lines of JSON:
// the first says what the file is, the others have a record each, by id. The bytes depend only on
// the set of logs.

/// The ending of a partial result's file name. In a folder such files are found by it.
inline constexpr std::string_view kPartialEnding = ".gpmerge";

/// Whether the first bytes are those of a partial result; false if the file cannot be read.
bool is_partial(const std::string& path);

/// `version`: this command's. Throws std::runtime_error if zstd fails.
void write_partial(std::vector<ProcessRecord> records, std::string_view version, std::ostream& out);

/// Reads the records. Throws LogError if the file is damaged, cut off, or made by a newer gpupeak.
std::vector<ProcessRecord> read_partial(const std::string& path);

// Writes a ProcessRecord as one line of JSON, and reads it, for partial results. docs/merge.md
// describes the fields.

std::string record_text(const ProcessRecord& record);

/// Reads a record. Throws std::runtime_error that says what is wrong with it.
ProcessRecord record_of(std::string_view text);

}  // namespace gpupeak::collector
