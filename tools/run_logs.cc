#include "run_logs.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "gpupeak/log_format.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;

class File {
 public:
  File(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  template <typename T>
  bool read_at(uint64_t offset, T& value) const {
    return fd_ >= 0 && pread(fd_, &value, sizeof value, static_cast<off_t>(offset)) == sizeof value;
  }
  template <typename T>
  bool write_at(uint64_t offset, const T& value) const {
    return fd_ >= 0 &&
           pwrite(fd_, &value, sizeof value, static_cast<off_t>(offset)) == sizeof value;
  }

 private:
  int fd_;
};

bool read_header(const File& file, gpupeak_file_header& header) {
  return file.read_at(0, header) && header.magic == GPUPEAK_LOG_MAGIC &&
         header.version == GPUPEAK_LOG_VERSION;
}

std::optional<RunLog> read_log(const std::string& path, uint64_t since_ns, pid_t child) {
  const File file(path, O_RDONLY);
  gpupeak_file_header header{};
  gpupeak_counters_page counters{};
  if (!read_header(file, header) || header.start_realtime_ns < since_ns) return std::nullopt;
  if (!file.read_at(header.counters_offset, counters)) return std::nullopt;
  return RunLog{path, static_cast<pid_t>(header.pid) == child, header.start_realtime_ns,
                counters.device_events};
}

}  // namespace

std::vector<RunLog> find_logs(const std::string& pattern, uint64_t since_ns, pid_t child) {
  std::vector<RunLog> logs;
  std::error_code error;
  for (fs::directory_iterator entry(fs::path(pattern).parent_path(), error), end;
       !error && entry != end; entry.increment(error)) {
    if (!entry->is_regular_file(error)) continue;
    if (auto log = read_log(entry->path().string(), since_ns, child))
      logs.push_back(*std::move(log));
  }
  std::sort(logs.begin(), logs.end(), [](const RunLog& a, const RunLog& b) {
    if (a.of_child != b.of_child) return a.of_child;
    if ((a.device_events > 0) != (b.device_events > 0)) return a.device_events > 0;
    return a.start_realtime_ns > b.start_realtime_ns;
  });
  return logs;
}

void note_exit(const std::string& path, int wait_status, uint64_t rss_peak_bytes) {
  const File file(path, O_RDWR);
  gpupeak_file_header header{};
  gpupeak_counters_page counters{};
  if (!read_header(file, header) || !file.read_at(header.counters_offset, counters)) return;
  const bool signalled = WIFSIGNALED(wait_status);
  const uint32_t kind = signalled ? GPUPEAK_EXIT_SIGNAL : GPUPEAK_EXIT_CODE;
  const int32_t code = signalled ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
  file.write_at(header.counters_offset + offsetof(gpupeak_counters_page, exit_kind), kind);
  file.write_at(header.counters_offset + offsetof(gpupeak_counters_page, exit_code), code);
  if (counters.rss_peak_bytes == 0) {
    file.write_at(header.counters_offset + offsetof(gpupeak_counters_page, rss_peak_bytes),
                  rss_peak_bytes);
  }
}

}  // namespace gpupeak::tools
