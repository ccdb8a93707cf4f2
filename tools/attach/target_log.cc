#include "tools/attach/target_log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "collector/log/log_appender.h"
#include "collector/text/error.h"
#include "tools/shared/log_folder.h"

namespace gpupeak::tools {

namespace {

bool is_pid(const std::string& word) {
  return !word.empty() && word.size() < 10 &&
         std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c) != 0; });
}

void require_own_process(const std::string& pid) {
  struct stat process {
  }, theirs{}, ours{};
  const std::string folder = "/proc/" + pid;
  if (stat(folder.c_str(), &process) != 0)
    throw collector::UsageError("there is no process " + pid);
  if (process.st_uid != geteuid()) {
    throw collector::UsageError("process " + pid + " is of user " + std::to_string(process.st_uid) +
                                ", you are user " + std::to_string(geteuid()) +
                                ": only a program of your own is told to record");
  }
  if (stat((folder + "/ns/pid").c_str(), &theirs) != 0 || stat("/proc/self/ns/pid", &ours) != 0 ||
      theirs.st_ino != ours.st_ino) {
    throw collector::UsageError("process " + pid +
                                " is in another container, or may not be looked at: run this "
                                "command where it runs");
  }
}

}  // namespace

std::string log_of_own_target(const std::string& pid_or_log) {
  if (is_pid(pid_or_log)) require_own_process(pid_or_log);
  return log_of_target(pid_or_log);
}

std::string log_meant_by(const std::string& log) {
  if (access(log.c_str(), F_OK) == 0 || !is_pid(log)) return log;
  const auto pid = static_cast<uint32_t>(std::stoul(log));
  if (access(("/proc/" + log).c_str(), F_OK) == 0) {
    const std::string written = collector::log_of_process(std::stoi(log));
    if (!written.empty()) return written;
  }
  FolderLog newest;
  for (FolderLog& ended : LogFolder(".", SIZE_MAX).look().logs) {
    if (ended.head.header.pid == pid &&
        ended.head.header.start_realtime_ns >= newest.head.header.start_realtime_ns)
      newest = std::move(ended);
  }
  return newest.path.empty() ? log_of_target(log) : newest.path;
}

std::string log_of_target(const std::string& pid_or_log) {
  if (!is_pid(pid_or_log)) return pid_or_log;
  const std::string log = collector::log_of_process(std::stoi(pid_or_log));
  if (log.empty()) {
    throw collector::UsageError("process " + pid_or_log +
                                " writes no log; start it with `gpupeak run`, or name the log of "
                                "the process that does");
  }
  return log;
}

}  // namespace gpupeak::tools
