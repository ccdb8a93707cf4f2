// `mark` names a moment of a running program; `start` and `stop` begin and end the recording of its
// heap.

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <string>

#include "collector/files/regular_file.h"
#include "collector/log/log_appender.h"
#include "collector/log/log_head.h"
#include "collector/text/error.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/process_stat.h"
#include "tools/shared/runs.h"

namespace gpupeak::tools {
namespace {

using collector::LogError;
using collector::LogState;
using collector::UsageError;

struct WindowOptions {
  std::string target;  ///< a process id or a log
  std::string host = "full";
  double seconds = 10;  ///< to wait for an answer
};

const std::map<std::string, uint64_t> kModes{
    {"auto", GPUPEAK_HOST_AUTO}, {"full", GPUPEAK_HOST_FULL}, {"sampled", GPUPEAK_HOST_SAMPLED}};

std::string last_error() {
  return strerror(errno);
}

/// The counters page of a log, mapped to be changed. The log must belong to this user: root could
/// open any, and a link or a shared folder could lead to somebody else's log.
class SharedCounters {
 public:
  explicit SharedCounters(const std::string& path) : path_(path) {
    struct stat file {};
    const auto inside = collector::open_regular(path, O_RDWR | O_NOFOLLOW, file);
    if (!inside && errno == ENXIO) refuse("is no file");
    if (!inside) refuse("cannot be written: " + last_error());
    if (file.st_uid != geteuid())
      refuse(
          fmt::format("belongs to user {}, not to you (user {}): only a program of your own "
                      "is told to record",
                      file.st_uid, geteuid()));
    const collector::LogHead head = collector::read_head(path);
    constexpr size_t kBytes = GPUPEAK_LOG_PAGE + GPUPEAK_COUNTERS_BYTES;
    if (head.header.counters_offset != GPUPEAK_LOG_PAGE || head.header.chunks_offset < kBytes ||
        file.st_size < static_cast<off_t>(kBytes) || head.counters.window_listens == 0)
      refuse(
          fmt::format("is not one whose recording can begin and end: start the program with "
                      "`gpupeak run --dormant` or GPUPEAK_HOST=counters"));
    if (state_of(head) == LogState::kElsewhere)
      refuse("is of another container or machine: run this command there");
    if (state_of(head) != LogState::kRunning) refuse("is of a process that has ended");
    collector::guard_mappings();  // the log may be cut meanwhile
    mapped_ = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, inside.get(), 0);
    if (mapped_ == MAP_FAILED) refuse("cannot be mapped: " + last_error());
  }
  ~SharedCounters() { munmap(mapped_, GPUPEAK_LOG_PAGE + GPUPEAK_COUNTERS_BYTES); }
  SharedCounters(const SharedCounters&) = delete;
  SharedCounters& operator=(const SharedCounters&) = delete;

  gpupeak_counters_page& page() const {
    return *reinterpret_cast<gpupeak_counters_page*>(static_cast<char*>(mapped_) +
                                                     GPUPEAK_LOG_PAGE);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) { throw UsageError(path_ + " " + why); }

  const std::string path_;
  void* mapped_ = nullptr;
};

uint64_t request_number(uint64_t word) {
  return word >> 8;
}

/// Puts a request into the page, with the next number, and returns it.
uint64_t ask(gpupeak_counters_page& page, uint64_t what) {
  std::atomic_ref<uint64_t> word(page.window_request);
  uint64_t before = word.load();
  for (;;) {
    const uint64_t request = (request_number(before) + 1) << 8 | what;
    if (word.compare_exchange_weak(before, request)) return request;
  }
}

/// The answer to the request; none: it did not come in time.
std::optional<uint64_t> wait_for(const SharedCounters& log, uint64_t request, double seconds) {
  std::atomic_ref<uint64_t> word(log.page().window_answer);
  uint64_t answer = 0;
  const bool has_come = wait_until(seconds, std::chrono::milliseconds(20), [&] {
    answer = word.load(std::memory_order_acquire);
    return request_number(answer) >= request_number(request);
  });
  if (!has_come) return std::nullopt;
  // A later number: somebody else's request has replaced ours.
  const bool is_ours = request_number(answer) == request_number(request);
  return is_ours ? answer & 0xff : uint64_t{GPUPEAK_WINDOW_UNKNOWN};
}

void withdraw(const SharedCounters& log, uint64_t request) {
  std::atomic_ref<uint64_t> word(log.page().window_request);
  word.compare_exchange_strong(request, (request_number(request) + 1) << 8);
}

int end_of(uint64_t answer, const std::string& target) {
  switch (answer) {
    case GPUPEAK_WINDOW_BEGUN:
    case GPUPEAK_WINDOW_ENDED:
      return kOk;
    case GPUPEAK_WINDOW_OPEN_ALREADY:
      throw UsageError(target + " records its heap already: end that first (`gpupeak stop`)");
    case GPUPEAK_WINDOW_NOT_OPEN:
      throw UsageError(target + " records no heap: nothing to end (`gpupeak start` begins)");
    case GPUPEAK_WINDOW_NO_MEMORY:
      throw LogError(target + " cannot record: it has no memory left for the marks of its blocks",
                     0);
    case GPUPEAK_WINDOW_NO_LOG:
      throw LogError(target + " cannot record: its log cannot grow (is the disk full?)", 0);
    default:
      throw UsageError(target + ": another command has asked for something else meanwhile");
  }
}

/// Puts a request, waits for the answer, and says what came of it. Takes the request back if nobody
/// answers.
int ask_and_wait(const WindowOptions& options, uint64_t what) {
  const SharedCounters log(log_of_own_target(options.target));
  const uint64_t request = ask(log.page(), what);
  if (const auto answer = wait_for(log, request, options.seconds))
    return end_of(*answer, options.target);
  withdraw(log, request);
  throw UsageError(fmt::format(
      "{} {} within {:g} s: nothing has changed, and the request is withdrawn. The library looks "
      "at "
      "it when a thread allocates, maps memory or calls the driver; --wait SECONDS waits longer",
      options.target,
      state_of(collector::read_head(log_of_target(options.target))) == LogState::kRunning
          ? "made no such call"
          : "ended",
      options.seconds));
}

int start(const WindowOptions& options) {
  const int code = ask_and_wait(options, kModes.at(options.host));
  spdlog::info("the heap is recorded from now on (`gpupeak stop {}` ends it)", options.target);
  return code;
}

int stop(const WindowOptions& options) {
  const int code = ask_and_wait(options, GPUPEAK_HOST_COUNTERS);
  spdlog::info("the heap is only counted again (`gpupeak report {}` shows what was recorded)",
               options.target);
  return code;
}

void add_target(CLI::App& verb, WindowOptions& options) {
  add_required(verb, "process", options.target, "PID|LOG",
               "Its process id, or the log that it writes");
  add_number(verb, "--wait", options.seconds, 0, 1e6,
             "How long to wait until the program has seen it")
      ->type_name("SECONDS");
}

}  // namespace

void add_start(CommandLine& line) {
  auto [verb, options] = line.add(
      "start", "Begin to record the heap of a program that runs dormant (run --dormant)", start);
  add_target(verb, options);
  add_choice(verb, "--host", options.host, {"full", "auto", "sampled"}, "What to record of it");
}

void add_stop(CommandLine& line) {
  auto [verb, options] = line.add("stop", "End what `start` has begun; the program runs on", stop);
  add_target(verb, options);
}

namespace {

struct MarkOptions {
  std::string target;  ///< a process id or a log
  std::string name;
};

int mark(const MarkOptions& options) {
  collector::LogAppender(log_of_target(options.target)).mark(options.name);
  return kOk;
}

}  // namespace

void add_mark(CommandLine& line) {
  auto [verb, options] =
      line.add("mark", "Mark this instant in the log of a running process", mark);
  add_required(verb, "process", options.target, "PID|LOG",
               "Its process id, or the log that it writes");
  add_required(verb, "name", options.name, "NAME", "What to call the mark");
}

}  // namespace gpupeak::tools
