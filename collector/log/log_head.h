// Reads the front of a log, however long it is: its header, and the counters page, which the
// library keeps up to date. LogReader reads the rest.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/log/definitions.h"
#include "collector/log/log_reader.h"
#include "gpupeak/log_format.h"

namespace gpupeak::collector {

struct LogHead {
  gpupeak_file_header header{};
  gpupeak_counters_page counters{};
  uint64_t bytes = 0;  ///< of the whole file
  uid_t owner = 0;     ///< of the file
};

/// Of a packed log only the beginning is unpacked, and `bytes` is the size of the package. Throws
/// LogError if it is no log of this version, and as unpack_front().
LogHead read_head(const std::string& path);

/// A log's first bytes, unpacked.
struct LogFront {
  std::vector<uint8_t> bytes;  ///< empty: the file cannot be read
  bool is_packed = false;
  uint64_t file_bytes = 0;
  uid_t owner = 0;
};
/// At most `most` bytes. Throws as unpack_front().
LogFront read_front(const std::string& path, size_t most);

// Reads what a log says of its process besides its events: program, host, GPUs. It uses pread
// alone, since `serve` looks at logs for months and must survive that somebody cuts one meanwhile.

struct LogFacts {
  std::string program;  ///< file name; empty: not known
  std::string host;
  std::vector<DeviceInfo> devices;  ///< that the program has looked at so far
};

/// Reads a log that is not packed, as far as it is written now. What cannot be read is left out.
LogFacts read_facts(const std::string& path, const LogHead& head);

// Says whether the process of a log still runs (the header and the counters page alone tell it, so
// it can be asked often), which figures its log supports, and which limit it had.

enum class LogState {
  kRunning,
  kEnded,
  kKilled,     ///< gone, and its log has no end
  kElsewhere,  ///< its log has no end so far; it ran on another machine or in another container
};
inline constexpr const char* kLogStates[] = {"running", "ended", "killed", "elsewhere"};

/// The state of the log's process now.
LogState state_of(const gpupeak_file_header& header, const gpupeak_counters_page& counters);
inline LogState state_of(const LogHead& head) {
  return state_of(head.header, head.counters);
}

/// Whether the log's process ids mean something here: the same machine, boot and container, which
/// is that of the process with this folder below /proc.
bool is_of_this_boot(const gpupeak_file_header& header, const std::string& folder = "/proc/self");

/// What the kernel says of a process in /proc/PID/stat.
struct ProcessStat {
  std::string name;  ///< of the program, or the name that the process gave itself
  char state = 0;
  pid_t parent = 0;
  uint64_t faults_of_children = 0;  ///< minor page faults of children that it has waited for
  uint64_t threads = 0;
  uint64_t start_time = 0;  ///< clock ticks since the boot
  uint64_t rss_bytes = 0;
  uint64_t processor = 0;  ///< on which it ran last
  uint64_t arguments = 0;  ///< their address; it changes with an exec

  /// Whether the whole process has ended, not its first thread alone.
  bool has_ended() const { return state == 'Z' && threads <= 1; }
};

/// None if there is no such process. `folder`: /proc/PID, or a thread's.
std::optional<ProcessStat> process_stat(const std::string& folder);

/// When the process began: the kernel's clock ticks since boot, as a log's header has it. 0 if
/// there is no such process, or it has ended and nobody has waited for it yet. `folder`: /proc/PID.
uint64_t process_start_time(const std::string& folder);

/// The fields of a file such as /proc/PID/status, by their names; empty: it cannot be read.
std::map<std::string, std::string> fields_of(const std::string& file);

/// The process id inside its own container, which a log's header has.
uint32_t pid_inside(const std::string& folder);

/// The folder below /proc of the process that writes the log, in whatever container it is; empty:
/// it has ended, or cannot be looked at.
std::string folder_of_process(const gpupeak_file_header& header);

/// Whether the program ran before its log began.
inline bool is_of_attached(const gpupeak_file_header& header) {
  return (header.flags & GPUPEAK_FLAG_ATTACHED) != 0;
}

/// Whether the log's process runs. Where its process id means nothing on this machine: whether the
/// log has no end.
bool may_be_running(const gpupeak_file_header& header, const gpupeak_counters_page& counters);

/// Whether a process still runs that ran where the log `beside` was made. True where nobody can
/// tell.
bool may_be_running(const gpupeak_file_header& beside, uint32_t pid, uint64_t start_time);

/// The process's resident memory now. None: it has gone, or it is of another machine.
std::optional<uint64_t> resident_bytes(const gpupeak_file_header& beside, uint32_t pid,
                                       uint64_t start_time);
/// The same for a process of this machine.
std::optional<uint64_t> resident_bytes(uint32_t pid, uint64_t start_time);

// Which figures a log supports at all. A figure that was not measured is null in the summary, never
// 0. Used by the metrics, the peaks and the quality warnings.
struct Coverage {
  bool heap_events = false;  ///< every heap block, or a sample of them
  /// The heap gauge of the counters page counts this process from its start.
  bool heap_counters = false;
  bool mappings = false;
  /// Heap blocks of the windows that somebody asked for, and of no other time.
  bool windows = false;
  bool sampled = false;  ///< small heap blocks are a sample, at least towards the end
  /// Heap and mappings from the start of the process: host sums mean something.
  bool host() const { return heap_events && mappings; }
};

/// The GPUs that have had memory.
std::vector<int32_t> counted_devices(const gpupeak_counters_page& counters);
/// Which figures a log with this header and these counters supports.
Coverage coverage_of(const gpupeak_file_header& header, const gpupeak_counters_page& counters);
inline Coverage coverage_of(const LogReader& log) {
  return coverage_of(log.header(), log.counters());
}

/// Whether the peak of this scope is a figure to show.
bool covers_scope(const Coverage& coverage, std::string_view scope);

// Reads what a log says of the limit that `gpupeak run --limit` gave a device.
struct RunLimit {
  uint64_t bytes = 0, real_bytes = 0;
  bool holds = false;  ///< false: the device has no more memory than that, or shares the host's
  /// The card that the limit stands for, as it may be shown; empty: none was named.
  std::string card;
};

/// The limit of the device. None: there was none, or the log's fact makes no sense.
std::optional<RunLimit> run_limit(const Definitions& definitions, uint64_t ordinal);

}  // namespace gpupeak::collector
