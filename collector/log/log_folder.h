// The logs below a folder, of programs that run and of programs that have ended. Only the first
// pages of each log are read. `serve` and `top` look again and again; a log is read again only if
// its file has changed or its program may still run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/files/regular_file.h"
#include "collector/log/log_head.h"

namespace gpupeak::collector {

/// Memory over time.
struct MemoryPoint {
  double seconds = 0;  ///< since the recording began
  uint64_t bytes = 0;
};
using MemoryCurve = std::vector<MemoryPoint>;

/// What all looks at a running program found.
struct LogLooks {
  uint64_t cookie = 0;  ///< of the log
  std::map<int32_t, MemoryCurve> devices;
  MemoryCurve heap;    ///< usable bytes
  MemoryCurve events;  ///< `bytes` is a count of events here
};

/// Growth in bytes a second, by a straight line through the last minute; none: too little was seen.
std::optional<double> growth_of(const MemoryCurve& curve);

struct FolderLog {
  std::string name;  ///< path below the folder
  std::string path;
  LogHead head;
  LogState state = LogState::kEnded;
  /// Empty for a packed log, since it would have to be unpacked.
  LogFacts facts;
  std::shared_ptr<LogLooks> looks;

  /// Bytes, without the hole at the end of a log that is being written.
  uint64_t bytes() const {
    return is_live() ? std::min(head.bytes, head.counters.file_bytes) : head.bytes;
  }
  bool is_live() const { return state == LogState::kRunning || state == LogState::kElsewhere; }
};

/// Logs whose program may still run come first. Within both parts the log that began last is first.
struct FolderView {
  std::vector<FolderLog> logs;
  size_t left_out = 0;    ///< older logs, beyond `most`
  size_t unreadable = 0;  ///< files that are named like logs and cannot be read
};

class LogFolder {
 public:
  /// Logs in folders below are found, too. If `folder` is a file, that is the only log. `most`: at
  /// most how many logs look() returns.
  LogFolder(std::filesystem::path folder, size_t most);
  /// The folder as it is now. A folder that cannot be read has no logs.
  FolderView look();

 private:
  struct Known {
    FileState file;
    std::optional<FolderLog> log;  ///< none: it is no log
    uint32_t devices = 0;          ///< number of devices when the facts were read
  };
  static void refresh(Known& known, FileState file);

  const std::filesystem::path folder_;
  const size_t most_;
  std::map<std::string, Known> known_;
};

/// Files with this ending in the folder and in folders below it, sorted by path.
std::vector<std::string> files_named(const std::filesystem::path& folder, std::string_view ending);

}  // namespace gpupeak::collector
