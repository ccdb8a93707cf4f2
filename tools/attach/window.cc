#include "tools/attach/window.h"

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
      throw UsageError(target + " records its heap already: end that first (`gpupeak detach`)");
    case GPUPEAK_WINDOW_NOT_OPEN:
      throw UsageError(target + " records no heap: nothing to end (`gpupeak attach` begins)");
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
int ask_and_wait(const std::string& target, uint64_t what, double seconds) {
  const SharedCounters log(log_of_own_target(target));
  const uint64_t request = ask(log.page(), what);
  if (const auto answer = wait_for(log, request, seconds)) return end_of(*answer, target);
  withdraw(log, request);
  throw UsageError(fmt::format(
      "{} {} within {:g} s: nothing has changed, and the request is withdrawn. The library looks "
      "at it when a thread allocates, maps memory or calls the driver; --wait SECONDS waits longer",
      target,
      state_of(collector::read_head(log_of_target(target))) == LogState::kRunning
          ? "made no such call"
          : "ended",
      seconds));
}

struct MarkOptions {
  std::string target;  ///< a process id or a log
  std::string name;
};

int mark(const MarkOptions& options) {
  collector::LogAppender(log_of_target(options.target)).mark(options.name);
  return kOk;
}

}  // namespace

bool is_window(const std::string& target, bool heap_alone) {
  if (!is_pid(target)) return true;
  struct stat process {};
  const bool is_own =
      stat(("/proc/" + target).c_str(), &process) == 0 && process.st_uid == geteuid();
  if (heap_alone || !is_own) return heap_alone;
  const std::string log = collector::log_of_process(std::stoi(target));
  return !log.empty() && !collector::is_of_attached(collector::read_head(log).header);
}

int begin_window(const std::string& target, uint64_t host_mode, double seconds) {
  if (host_mode == GPUPEAK_HOST_COUNTERS)
    throw UsageError(target + " counts its heap already: --host says what to record of it");
  const int code = ask_and_wait(target, host_mode, seconds);
  spdlog::info("the heap is recorded from now on (`gpupeak detach {}` ends it)", target);
  return code;
}

int end_window(const std::string& target, double seconds) {
  const int code = ask_and_wait(target, GPUPEAK_HOST_COUNTERS, seconds);
  spdlog::info("the heap is only counted again (`gpupeak report {}` shows what was recorded)",
               target);
  return code;
}

void add_mark(CommandLine& line) {
  auto [verb, options] = line.add("mark", "Mark this instant in the log of a running process", mark,
                                  R"(  gpupeak mark 4711 'warm-up done'
  gpupeak mark bert.gplog 'warm-up done')");
  add_process_or_log(verb, options.target);
  add_required(verb, "name", options.name, "NAME", "What to call the mark");
}

}  // namespace gpupeak::tools
