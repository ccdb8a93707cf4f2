// The logs below a folder, of runs that go on and of runs that have ended, by what stands at their
// front. `serve` and `top` ask for it again and again: what cannot have changed is not read again.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/log/log_facts.h"
#include "collector/log/log_head.h"
#include "collector/log/log_process.h"

namespace gpupeak::tools {

struct FolderLog {
  std::string name;  ///< below the folder
  std::string path;
  collector::LogHead head;
  collector::LogState state = collector::LogState::kEnded;
  /// Of a packed log none, since that would have to be unpacked.
  collector::LogFacts facts;

  /// Without the hole behind the end of one that is being written.
  uint64_t bytes() const {
    return is_live() ? std::min(head.bytes, head.counters.file_bytes) : head.bytes;
  }
  bool is_live() const {
    return state == collector::LogState::kRunning || state == collector::LogState::kElsewhere;
  }
};

/// Those that may run come first, then the one that began last.
struct FolderView {
  std::vector<FolderLog> logs;
  size_t left_out = 0;    ///< older ones, beyond the most that were asked for
  size_t unreadable = 0;  ///< named as logs are, and not to be read as such
};

class LogFolder {
 public:
  /// Logs in folders of folders are found, too; of a file it is the one. `most`: how many a view
  /// has.
  LogFolder(std::filesystem::path folder, size_t most);
  /// As it is now. A folder that cannot be read has no logs.
  FolderView look();

 private:
  struct Identity {
    dev_t device = 0;
    ino_t inode = 0;
    uint64_t bytes = 0;
    timespec modified{};
    bool operator==(const Identity& other) const;
  };
  struct Known {
    Identity identity;
    std::optional<FolderLog> log;  ///< none: it is no log
    uint32_t devices = 0;          ///< that the counters had when the facts were read
  };
  void refresh(Known& known, const std::string& path, const Identity& identity) const;

  const std::filesystem::path folder_;
  const size_t most_;
  std::map<std::string, Known> known_;
};

/// Files below a folder, and in the folders in it, whose names end so; by name.
std::vector<std::string> files_named(const std::filesystem::path& folder, std::string_view ending);

}  // namespace gpupeak::tools
