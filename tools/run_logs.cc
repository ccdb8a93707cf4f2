#include "run_logs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include "collector/log/log_parts.h"
#include "collector/log/log_reader.h"
#include "collector/text/error.h"
#include "gpupeak/log_format.h"
#include "log_process.h"

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
  void cut_to(uint64_t bytes) const {
    struct stat status {};
    if (fd_ >= 0 && fstat(fd_, &status) == 0 && status.st_size > static_cast<off_t>(bytes)) {
      [[maybe_unused]] const int result = ftruncate(fd_, static_cast<off_t>(bytes));
    }
  }

 private:
  int fd_;
};

bool read_header(const File& file, gpupeak_file_header& header) {
  return file.read_at(0, header) && header.magic == GPUPEAK_LOG_MAGIC &&
         header.version == GPUPEAK_LOG_VERSION;
}

/// By an earlier run, when its process had ended.
bool is_packed_in_place(const File& file) {
  gpupeak_packed_mark mark{};
  return file.read_at(0, mark) && mark.magic == GPUPEAK_PACKED_MAGIC &&
         memcmp(mark.text, GPUPEAK_PACKED_TEXT, sizeof mark.text) == 0;
}

std::optional<RunLog> read_log(const std::string& path, uint64_t since_ns, pid_t child) {
  const File file(path, O_RDONLY);
  gpupeak_file_header header{};
  gpupeak_counters_page counters{};
  if (!read_header(file, header) || header.start_realtime_ns < since_ns) return std::nullopt;
  if (!file.read_at(header.counters_offset, counters)) return std::nullopt;
  // The folder may be that of other runs, too.
  if (header.run_pid != static_cast<uint32_t>(child)) return std::nullopt;
  return RunLog{path,
                static_cast<pid_t>(header.pid),
                header.process_start_time,
                static_cast<pid_t>(header.pid) == child,
                header.start_realtime_ns,
                counters.device_events};
}

/// File name of the program whose log it is.
std::string program_of(const std::string& path) {
  try {
    const std::string exe(collector::LogReader(path).definitions().fact("exe"));
    return exe.substr(exe.rfind('/') + 1);
  } catch (const collector::LogError&) {
    return "";
  }
}

bool is_same_process(const RunLog& a, const RunLog& b) {
  return a.pid == b.pid && a.process_start_time == b.process_start_time;
}

/// Puts `log` into that of another program of its process, which is its only place from then on.
bool move_into(RunLog& main, const RunLog& log) {
  if (!collector::add_part(main.path, log.path, program_of(log.path))) return false;
  ++main.parts;
  return unlink(log.path.c_str()) == 0;
}

}  // namespace

bool is_running(const RunLog& log) {
  const File file(log.path, O_RDONLY);
  gpupeak_file_header header{};
  gpupeak_counters_page counters{};
  return !read_header(file, header) || !file.read_at(header.counters_offset, counters) ||
         may_be_running(header, counters);
}

OldLog remove_old_log(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return OldLog::kNone;
  const File file(path, O_RDONLY);
  gpupeak_file_header header{};
  gpupeak_counters_page counters{};
  if (!is_packed_in_place(file)) {
    if (!file.read_at(0, header) || header.magic != GPUPEAK_LOG_MAGIC) return OldLog::kNone;
    file.read_at(GPUPEAK_LOG_PAGE, counters);
    if (may_be_running(header, counters)) return OldLog::kInUse;
  }
  return unlink(path.c_str()) == 0 ? OldLog::kRemoved : OldLog::kNone;
}

std::vector<RunLog> find_logs(const std::vector<std::string>& patterns, uint64_t since_ns,
                              pid_t child) {
  std::vector<RunLog> logs;
  std::set<fs::path> folders;
  for (const std::string& pattern : patterns) folders.insert(fs::path(pattern).parent_path());
  for (const fs::path& folder : folders) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      if (!entry->is_regular_file(error)) continue;
      if (auto log = read_log(entry->path().string(), since_ns, child))
        logs.push_back(*std::move(log));
    }
  }
  std::sort(logs.begin(), logs.end(), [](const RunLog& a, const RunLog& b) {
    if (a.of_child != b.of_child) return a.of_child;
    if ((a.device_events > 0) != (b.device_events > 0)) return a.device_events > 0;
    return a.start_realtime_ns > b.start_realtime_ns;
  });
  return logs;
}

void drop_short_images(std::vector<RunLog>& logs) {
  constexpr uint64_t kShortNs = 1'000'000'000;
  const std::vector<RunLog> all = logs;
  std::erase_if(logs, [&all](const RunLog& log) {
    const bool was_short = std::any_of(all.begin(), all.end(), [&](const RunLog& next) {
      return next.pid == log.pid && next.process_start_time == log.process_start_time &&
             next.start_realtime_ns > log.start_realtime_ns &&
             next.start_realtime_ns - log.start_realtime_ns < kShortNs;
    });
    return was_short && log.device_events == 0 && unlink(log.path.c_str()) == 0;
  });
}

void join_programs(std::vector<RunLog>& logs, const std::string& wanted) {
  std::vector<RunLog> kept;
  for (const RunLog& log : logs) {  // the main one of each process comes first
    const bool is_other = std::any_of(
        kept.begin(), kept.end(), [&](const RunLog& main) { return is_same_process(main, log); });
    if (is_other) continue;
    std::vector<RunLog> others;
    for (const RunLog& other : logs) {
      if (is_same_process(other, log) && other.path != log.path) others.push_back(other);
    }
    std::sort(others.begin(), others.end(), [](const RunLog& a, const RunLog& b) {
      return a.start_realtime_ns < b.start_realtime_ns;
    });
    RunLog main = log;
    const bool ended = !others.empty() && !is_running(log);
    std::erase_if(others, [&](const RunLog& other) { return ended && move_into(main, other); });
    const bool is_renamed = ended && main.of_child && wanted.find('%') == std::string::npos &&
                            main.path != wanted && access(wanted.c_str(), F_OK) != 0 &&
                            rename(main.path.c_str(), wanted.c_str()) == 0;
    if (is_renamed) main.path = wanted;
    kept.push_back(std::move(main));
    kept.insert(kept.end(), others.begin(), others.end());
  }
  logs = std::move(kept);
}

void note_exit(const std::string& path, const ProcessExit& exit) {
  const File file(path, O_RDWR);
  gpupeak_file_header header{};
  gpupeak_counters_page counters{};
  if (!read_header(file, header) || !file.read_at(header.counters_offset, counters)) return;
  const bool signalled = WIFSIGNALED(exit.wait_status);
  const uint32_t kind = signalled ? GPUPEAK_EXIT_SIGNAL : GPUPEAK_EXIT_CODE;
  const int32_t code = signalled ? WTERMSIG(exit.wait_status) : WEXITSTATUS(exit.wait_status);
  file.write_at(header.counters_offset + offsetof(gpupeak_counters_page, exit_kind), kind);
  file.write_at(header.counters_offset + offsetof(gpupeak_counters_page, exit_code), code);
  file.write_at(header.counters_offset + offsetof(gpupeak_counters_page, exit_monotonic_ns),
                exit.monotonic_ns);
  if (counters.rss_peak_bytes == 0 && exit.rss_peak_bytes != 0) {
    file.write_at(header.counters_offset + offsetof(gpupeak_counters_page, rss_peak_bytes),
                  exit.rss_peak_bytes);
  }
}

namespace {

/// All zero if they cannot be read.
gpupeak_counters_page counters_of(const std::string& path) {
  const File file(path, O_RDONLY);
  gpupeak_file_header header{};
  gpupeak_counters_page counters{};
  const bool known = read_header(file, header) && file.read_at(header.counters_offset, counters);
  return known ? counters : gpupeak_counters_page{};
}

}  // namespace

uint64_t rss_peak_of(const std::string& path) {
  return counters_of(path).rss_peak_bytes;
}

bool has_end(const std::string& path) {
  return counters_of(path).ended != 0;
}

void cut_hole(const std::string& path) {
  const File file(path, O_RDWR);
  gpupeak_file_header header{};
  gpupeak_counters_page counters{};
  if (!read_header(file, header) || !file.read_at(header.counters_offset, counters)) return;
  if (counters.file_bytes >= header.chunks_offset && !may_be_running(header, counters))
    file.cut_to(counters.file_bytes);
}

}  // namespace gpupeak::tools
