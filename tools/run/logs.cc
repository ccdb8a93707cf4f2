#include "tools/run/logs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <set>
#include <span>
#include <sstream>
#include <tuple>
#include <type_traits>

#include "collector/files/regular_file.h"
#include "collector/log/log_head.h"
#include "collector/log/log_parts.h"
#include "collector/log/log_reader.h"
#include "collector/log/mapped_file.h"
#include "collector/log/packed_log.h"
#include "collector/log/parallel.h"
#include "collector/log/symbol_table.h"
#include "collector/rules/rule_book.h"
#include "collector/symbols/keep_names.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "gpupeak/memory_kinds.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;

/// A log that is opened to be read or changed. It is not opened through a link, which may lead to
/// any file.
class File {
 public:
  gpupeak_file_header header{};      ///< all zero: it is no log
  gpupeak_counters_page counters{};  ///< all zero: they cannot be read

  File(const std::string& path, int flags)
      : file_(collector::open_regular(path, flags | O_NOFOLLOW, status_)) {
    read();
  }
  /// Opens the very file that was looked at before. Opens none if the path has another file now.
  File(const RunLog& log, int flags)
      : file_(collector::open_regular(log.path, flags | O_NOFOLLOW, status_)) {
    if (status_.st_dev == log.device && status_.st_ino == log.inode) read();
  }
  /// Whether it is a log of this version with its counters.
  explicit operator bool() const { return is_log_; }
  const struct stat& status() const { return status_; }
  bool is_own(const std::string& path) const {
    return collector::is_own(status_, collector::folder_of(path));
  }
  template <typename T>
  bool read_at(uint64_t offset, T& value, size_t bytes = sizeof(T)) const {
    return file_ && pread(file_.get(), &value, bytes, static_cast<off_t>(offset)) ==
                        static_cast<ssize_t>(bytes);
  }
  /// Changes a field of `counters`, in the file too.
  template <typename T>
  void set(T& counter, std::type_identity_t<T> value) {
    counter = value;
    const auto within =
        reinterpret_cast<const char*>(&counter) - reinterpret_cast<char*>(&counters);
    collector::write_at(file_.get(), &counter, sizeof counter,
                        header.counters_offset + static_cast<uint64_t>(within));
  }
  void cut_to(uint64_t bytes) const {
    if (status_.st_size > static_cast<off_t>(bytes)) [[maybe_unused]]
      const int result = ftruncate(file_.get(), static_cast<off_t>(bytes));
  }

 private:
  void read() {
    if (!read_at(0, header) || header.magic != GPUPEAK_LOG_MAGIC) {
      header = {};
      return;
    }
    const bool has_counters = read_at(header.counters_offset, counters, counters_bytes(header));
    if (!has_counters) counters = {};
    is_log_ = has_counters && header.version == GPUPEAK_LOG_VERSION;
  }

  struct stat status_ {};
  collector::Descriptor file_;
  bool is_log_ = false;
};

/// Whether an earlier run has compressed the log in place, after the end of its process.
bool is_packed_in_place(const File& file) {
  gpupeak_packed_mark mark{};
  return file.read_at(0, mark) && mark.magic == GPUPEAK_PACKED_MAGIC &&
         memcmp(mark.text, GPUPEAK_PACKED_TEXT, sizeof mark.text) == 0;
}

/// Removes the very file that was looked at, if the path still leads to it.
bool remove_log(const RunLog& log) {
  struct stat file {};
  file.st_dev = log.device;
  file.st_ino = log.inode;
  return collector::is_still_at(log.path, file) && unlink(log.path.c_str()) == 0;
}

/// The names that the library gives to the logs of a pattern. A folder may have a million other
/// files: none of them is opened.
class LogNames {
 public:
  explicit LogNames(const std::string& pattern) {
    const std::string name = fs::path(pattern).filename();
    if (name.ends_with(kEnding)) ending_ = kEnding;
    begin_ = name.substr(0, std::min(name.find('%'), name.size() - ending_.size()));
    if (begin_.ends_with('.')) begin_.pop_back();  // %r may remove the dot in front of it
  }
  bool may_be(const std::string& name) const {
    return name.starts_with(begin_) && name.ends_with(ending_);
  }

 private:
  static constexpr std::string_view kEnding = ".gplog";
  std::string begin_;
  std::string_view ending_;
};

std::optional<RunLog> read_log(const std::string& path, const RunName& run) {
  const File file(path, O_RDONLY);
  const gpupeak_file_header& header = file.header;
  if (!file || header.start_realtime_ns < run.began_ns) return std::nullopt;
  // Other runs and other users may use the same folder.
  if (header.run_id != run.id || file.counters.run_id != run.id || !file.is_own(path))
    return std::nullopt;
  const bool of_child = static_cast<pid_t>(header.pid) == run.child;
  return RunLog{path,
                header,
                file.status().st_dev,
                file.status().st_ino,
                of_child,
                file.counters.device_events};
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
  return a.header.pid == b.header.pid && a.header.process_start_time == b.header.process_start_time;
}

/// Renames without replacing a file, also one that appears meanwhile.
bool rename_unless_taken(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;  // these: the file system cannot do that
  return link(from.c_str(), to.c_str()) == 0 && unlink(from.c_str()) == 0;
}

/// Puts `log` into the log of another program of the same process, and removes its file.
bool move_into(RunLog& main, const RunLog& log) {
  if (!collector::add_part(main.path, log.path, program_of(log.path))) return false;
  ++main.parts;
  return remove_log(log);
}

/// What a parent's log says of a child that a signal ended.
struct ChildKilled {
  uint32_t pid = 0;
  int signal = 0;
  uint64_t monotonic_ns = 0;
};

void add_killed_children(const std::string& path, std::vector<ChildKilled>& killed) {
  try {
    const collector::LogReader log(path);
    for (const auto& [key, value] : log.definitions().facts()) {
      ChildKilled child;
      std::istringstream fields(value);
      if (key == "child.killed" && fields >> child.pid >> child.signal >> child.monotonic_ns &&
          child.signal > 0 && child.signal <= SIGRTMAX)
        killed.push_back(child);
    }
  } catch (const collector::LogError&) {  // the report tells what is wrong with the log
  }
}

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// For all logs of a run together. The names of a program's own code take some hundredths, of one
/// with 40 MB of debug information a second.
constexpr Clock::duration kLeastPatience = 2s, kMostPatience = 10s, kPatienceForAll = 20s;
constexpr int kPartOfRun = 10;
/// Where nobody has asked for them, a run must not take longer for it.
constexpr Clock::duration kLeastUnasked = 50ms, kMostUnasked = 2s;
constexpr int kPartUnasked = 50;

Clock::duration patience_for(const std::string& which, std::chrono::nanoseconds ran) {
  if (which == "all") return kPatienceForAll;
  if (which == "auto")
    return std::clamp<Clock::duration>(ran / kPartUnasked, kLeastUnasked, kMostUnasked);
  return std::clamp<Clock::duration>(ran / kPartOfRun, kLeastPatience, kMostPatience);
}
/// Of one log: some forty thousand addresses.
constexpr uint64_t kMostNameBytes = 4 << 20;

/// Whether all of them fitted.
bool keep_names_of(const std::string& path, const collector::NamesBudget& budget) {
  const collector::LogReader log(path);
  uint64_t written = 0;
  const auto write = [&](const collector::KeptNames& names) {
    if (names.modules > 0) written = collector::write_kept_names(path, names.table, written);
  };
  const collector::KeptNames names =
      collector::keep_names(log, collector::builtin_name_rules(), budget, write);
  write(names);
  return names.left_out == 0;
}

int keep_names(const std::vector<RunLog>& logs, collector::NamesBudget budget) {
  be_spared_first();
  budget.search.add_build_ids();
  unsetenv("DEBUGINFOD_URLS");  // nobody waits for a server
  bool all_fitted = true;
  for (const RunLog& log : logs) {
    try {
      if (!is_running(log)) all_fitted &= keep_names_of(log.path, budget);
    } catch (const std::exception&) {  // the report tells what is wrong with the log
    }
  }
  return all_fitted ? 0 : 1;
}

constexpr uint64_t kLargeBytes = 64 << 20;
/// Chosen by measurements (docs/performance.md): with level 9 files are 3 % smaller, and it
/// takes three times as long.
constexpr int kLevel = 3;
struct Stopped {};

void compress(const std::string& path, const collector::Progress& show,
              const volatile sig_atomic_t& stop) {
  const collector::MappedFile log(path);
  collector::Packing packing;
  packing.level = kLevel;
  packing.threads = static_cast<int>(std::min(collector::usable_processors(), kCompressionThreads));
  packing.in_place = true;
  const auto progress = [&](uint64_t done, uint64_t total) {
    if (stop != 0) throw Stopped{};
    if (show) show(done, total);
  };
  write_output(path, [&](std::ostream& out) {
    collector::write_packed(std::span(log.data(), log.bytes()), "", out, progress, packing);
  });
}

}  // namespace

bool is_running(const RunLog& log) {
  const File file(log, O_RDONLY);
  return !file || collector::may_be_running(file.header, file.counters);
}

OldLog remove_old_log(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return OldLog::kNone;
  const bool is_name_taken = S_ISREG(status.st_mode) || S_ISLNK(status.st_mode);
  if (is_name_taken && !collector::is_own(status, collector::folder_of(path)))
    return OldLog::kOfOthers;
  if (!S_ISREG(status.st_mode)) return OldLog::kNone;
  const File file(path, O_RDONLY);
  if (!is_packed_in_place(file)) {
    if (file.header.magic != GPUPEAK_LOG_MAGIC) return OldLog::kNone;
    if (collector::may_be_running(file.header, file.counters)) return OldLog::kInUse;
  }
  const bool removed = collector::is_still_at(path, status) && unlink(path.c_str()) == 0;
  return removed ? OldLog::kRemoved : OldLog::kNone;
}

std::vector<RunLog> find_logs(const std::vector<std::string>& patterns, const RunName& run) {
  std::vector<RunLog> logs;
  std::set<fs::path> seen;
  for (const std::string& pattern : patterns) {
    const LogNames names(pattern);
    std::error_code error;
    for (fs::directory_iterator entry(fs::path(pattern).parent_path(), error), end;
         !error && entry != end; entry.increment(error)) {
      if (!names.may_be(entry->path().filename().native())) continue;
      if (!seen.insert(entry->path()).second || !entry->is_regular_file(error)) continue;
      if (auto log = read_log(entry->path().string(), run)) logs.push_back(*std::move(log));
    }
  }
  std::ranges::sort(logs, std::greater(), [](const RunLog& of) {
    return std::tuple(of.of_child, of.device_events > 0, of.header.start_realtime_ns);
  });
  return logs;
}

void drop_short_images(std::vector<RunLog>& logs) {
  constexpr uint64_t kShortNs = 1'000'000'000;
  const std::vector<RunLog> all = logs;
  std::erase_if(logs, [&all](const RunLog& log) {
    const uint64_t began = log.header.start_realtime_ns;
    const bool was_short = std::ranges::any_of(all, [&](const RunLog& next) {
      const uint64_t next_began = next.header.start_realtime_ns;
      return is_same_process(next, log) && next_began > began && next_began - began < kShortNs;
    });
    return was_short && log.device_events == 0 && remove_log(log);
  });
}

void join_programs(std::vector<RunLog>& logs) {
  std::vector<RunLog> kept;
  for (const RunLog& log : logs) {  // the main one of each process comes first
    const bool is_other =
        std::ranges::any_of(kept, [&](const RunLog& main) { return is_same_process(main, log); });
    if (is_other) continue;
    std::vector<RunLog> others;
    for (const RunLog& other : logs) {
      if (is_same_process(other, log) && other.path != log.path) others.push_back(other);
    }
    std::ranges::sort(others, {}, [](const RunLog& of) { return of.header.start_realtime_ns; });
    RunLog main = log;
    const bool ended = !others.empty() && !is_running(log);
    std::erase_if(others, [&](const RunLog& other) { return ended && move_into(main, other); });
    kept.push_back(std::move(main));
    kept.insert(kept.end(), others.begin(), others.end());
  }
  logs = std::move(kept);
}

void take_name(std::vector<RunLog>& logs, const std::string& wanted) {
  if (logs.empty() || wanted.find('%') != std::string::npos) return;
  RunLog& first = logs.front();
  if (first.path != wanted && !is_running(first) && rename_unless_taken(first.path, wanted))
    first.path = wanted;
}

void record_run(const std::vector<RunLog>& logs, collector::RunRecord seen) {
  if (logs.empty() || is_running(logs.front())) return;
  const fs::path folder = fs::path(logs.front().path).parent_path();
  for (const RunLog& log : logs) {
    const bool is_first = &log == &logs.front();
    seen.logs.push_back({is_first ? "" : fs::path(log.path).lexically_relative(folder).string(),
                         log.header.cookie, log.header.pid});
  }
  collector::write_run_record(logs.front().path, seen);
}

void note_exit(const RunLog& log, const ProcessExit& exit) {
  File file(log, O_RDWR);
  if (!file) return;
  const bool signalled = WIFSIGNALED(exit.wait_status);
  file.set(file.counters.exit_kind, signalled ? GPUPEAK_EXIT_SIGNAL : GPUPEAK_EXIT_CODE);
  file.set(file.counters.exit_code,
           signalled ? WTERMSIG(exit.wait_status) : WEXITSTATUS(exit.wait_status));
  file.set(file.counters.exit_monotonic_ns, exit.monotonic_ns);
  if (file.counters.rss_peak_bytes == 0 && exit.rss_peak_bytes != 0)
    file.set(file.counters.rss_peak_bytes, exit.rss_peak_bytes);
}

void note_killed_children(const std::vector<RunLog>& logs) {
  const auto lacks_end = [](const RunLog& log) {
    return !log.of_child && counters_of(log).ended == 0 && !is_running(log);
  };
  std::vector<RunLog> open;
  std::copy_if(logs.begin(), logs.end(), std::back_inserter(open), lacks_end);
  if (open.empty()) return;
  std::vector<ChildKilled> killed;
  for (const RunLog& log : logs) add_killed_children(log.path, killed);
  for (const RunLog& log : open) {
    const auto end = std::ranges::find_if(killed, [&](const ChildKilled& child) {
      const File file(log, O_RDONLY);
      return child.pid == log.header.pid && file &&
             child.monotonic_ns >= file.header.start_monotonic_ns;
    });
    if (end != killed.end()) note_exit(log, {end->signal, end->monotonic_ns, 0});
  }
}

gpupeak_counters_page counters_of(const RunLog& log) {
  return File(log.path, O_RDONLY).counters;
}

void cut_hole(const RunLog& log) {
  const File file(log, O_RDWR);
  if (file && file.counters.file_bytes >= file.header.chunks_offset &&
      !collector::may_be_running(file.header, file.counters))
    file.cut_to(file.counters.file_bytes);
}

NameKeeper::NameKeeper(const std::vector<RunLog>& logs, const std::string& which,
                       std::chrono::nanoseconds ran, const collector::SymbolSearch& search,
                       bool gone_alone)
    : is_asked_(which != "auto"),
      patience_(patience_for(gone_alone ? "own" : which, ran)),
      until_(Clock::now() + patience_) {
  if (which == "none" || logs.empty() || (gone_alone && search.opened.empty())) return;
  helper_ = Helper([&](int, int) {
    return keep_names(logs, {which == "all", is_asked_, kMostNameBytes, until_ - patience_ / 10,
                             search, gone_alone});
  });
}

bool NameKeeper::wait(const volatile sig_atomic_t& stop) {
  if (!helper_.is_there()) return true;
  const std::optional<int> status = helper_.wait(
      until_, [](std::string_view) {}, stop);
  helper_.end();
  return status == 0 || !is_asked_;
}

void compress_logs(const std::vector<RunLog>& logs, const std::string& when, bool quiet,
                   const volatile sig_atomic_t& stop) {
  Clock::duration took{};
  uint64_t count = 0, before = 0, after = 0;
  ProgressBar bar("compressing (Ctrl-C leaves the log as it is)");
  const collector::Progress show = quiet ? collector::Progress() : bar.callback();
  for (const RunLog& log : logs) {
    const uint64_t bytes = collector::state_of_file(log.path).bytes;
    const bool wanted = when == "always" || (when == "auto" && bytes >= kLargeBytes);
    if (!wanted || stop != 0 || is_running(log)) continue;
    try {
      const auto began = Clock::now();
      compress(log.path, show, stop);
      took += Clock::now() - began;
      ++count;
      before += bytes;
      after += collector::state_of_file(log.path).bytes;
    } catch (const Stopped&) {
    } catch (const std::exception& error) {
      bar.clear();
      if (!quiet)
        say("{} stays as it is, not compressed: {}", collector::escape(log.path), error.what());
    }
  }
  bar.clear();
  if (quiet || count == 0) return;
  const collector::TextStyle style;
  const double seconds = std::chrono::duration<double>(took).count();
  say_text(fmt::format("  compressed{}: {} to {} ({:.0f} %) in {:.1f} s\n",
                       count == 1 ? "" : fmt::format(" {} logs", count),
                       collector::size_text(before, style), collector::size_text(after, style),
                       100.0 * static_cast<double>(after) / static_cast<double>(before), seconds));
}

}  // namespace gpupeak::tools
