#include "tools/run/place.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "collector/files/regular_file.h"
#include "collector/text/sanitize.h"
#include "tools/run/logs.h"
#include "tools/shared/command_line.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultPattern = "gpupeak.%n.%p.%r.gplog";
constexpr const char* kChildPattern = "%n.%p.%r.gplog";

/// Whether there is room for a log's first chunks.
bool has_room(const std::string& folder) {
  constexpr uint64_t kLeastBytes = 64 << 10;
  struct statvfs disk {};
  return statvfs(folder.c_str(), &disk) != 0 || disk.f_bavail * disk.f_frsize >= kLeastBytes;
}

}  // namespace

std::string absolute_pattern(const std::string& out) {
  const char* variable = getenv("GPUPEAK_OUT");
  std::string pattern = out;
  if (pattern.empty()) pattern = variable != nullptr && *variable != 0 ? variable : kDefaultPattern;
  std::error_code error;
  if (pattern.ends_with('/') || fs::is_directory(pattern, error))
    pattern = fs::path(pattern) / kDefaultPattern;
  const fs::path absolute = fs::absolute(pattern, error);  // fails if our folder was removed
  return error ? pattern : absolute.lexically_normal().string();
}

std::string children_pattern(const std::string& pattern) {
  const fs::path path(pattern);
  const bool is_default = pattern.ends_with(kDefaultPattern);
  if (!is_default && pattern.find('%') != std::string::npos) return pattern;
  const std::string name = is_default ? fmt::format("gpupeak.{}.children", getpid())
                                      : path.stem().string() + ".children";
  fs::path folder = path.parent_path() / name;
  struct stat there {};
  // A folder that somebody else has made, or may write into, is not used.
  if (lstat(folder.c_str(), &there) == 0 && !collector::is_own_folder(folder.string()))
    folder = path.parent_path() / fmt::format("{}.{}", name, collector::unguessable_text());
  return folder / kChildPattern;
}

bool can_be_written(const std::string& pattern, bool quiet) {
  const std::string folder = fs::path(pattern).parent_path().string();
  if (folder.find('%') != std::string::npos) return true;  // not known yet
  const int error = access(folder.c_str(), W_OK | X_OK) != 0 ? errno
                    : has_room(folder)                       ? 0
                                                             : ENOSPC;
  if (error != 0 && !quiet) {
    say("cannot write a log into {}: {}. Nothing will be recorded; choose another place with -o",
        folder.empty() ? "the current folder" : collector::escape(folder), strerror(error));
  }
  return error == 0;
}

void prepare_place(const std::string& pattern, bool quiet) {
  if (pattern.find('%') != std::string::npos) return;
  const OldLog old = remove_old_log(pattern);
  if (quiet) return;
  if (old == OldLog::kInUse) {
    say("{} is the log of a process that still runs; this run's gets another name",
        collector::escape(pattern));
  }
  if (old == OldLog::kOfOthers)
    say("{} is another user's; this run's log gets another name", collector::escape(pattern));
}

std::string where_recorded(const std::string& pattern) {
  const fs::path folder = fs::path(pattern).parent_path();
  const bool is_name = pattern.find('%') == std::string::npos;
  if (is_name || folder.empty() || folder.string().find('%') != std::string::npos)
    return "to " + collector::escape(pattern);
  return "into " + collector::escape(folder.string());
}

}  // namespace gpupeak::tools
