// `attach` begins to record a program that runs already; `detach` ends that. Calling a function in
// another program needs code for each kind of processor; where the library is there already, a word
// in its log does.
#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>

#include "collector/files/regular_file.h"
#include "collector/log/log_appender.h"
#include "collector/log/log_head.h"
#include "collector/text/error.h"
#include "collector/text/text_format.h"
#include "gpupeak/attach.h"
#include "tools/commands.h"
#include "tools/shared/child.h"
#include "tools/shared/command_line.h"
#include "tools/shared/nvml.h"
#include "tools/shared/process_stat.h"
#include "tools/shared/runs.h"
#ifdef GPUPEAK_HAS_ATTACH
#include "tools/attach/target.h"
#endif

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;
using collector::LogError;
using collector::LogState;
using collector::UsageError;

// The heap of a program that has the library already and only counts (`run --dormant`,
// GPUPEAK_HOST=counters, `attach --host counters`): its recording begins and ends by a word in its
// log.

/// The counters page of a log, mapped to be changed. The log must belong to this user: root could
/// open any, and a link or a shared folder could lead to somebody else's log.
class SharedCounters {
 public:
  explicit SharedCounters(const std::string& path) : path_(path) {
    struct stat file {};
    const auto inside = collector::open_regular(path, O_RDWR | O_NOFOLLOW, file);
    if (!inside && errno == ENXIO) refuse("is no file");
    if (!inside) refuse(std::string("cannot be written: ") + strerror(errno));
    if (file.st_uid != geteuid())
      refuse(fmt::format(
          "belongs to user {}, not to you (user {}): only a program of your own is told to record",
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
    if (mapped_ == MAP_FAILED) refuse(std::string("cannot be mapped: ") + strerror(errno));
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
  throw UsageError(
      "{} {} within {:g} s: nothing has changed, and the request is withdrawn. The library looks "
      "at it when a thread allocates, maps memory or calls the driver; --wait SECONDS waits longer",
      target,
      state_of(collector::read_head(collector::log_of_target(target))) == LogState::kRunning
          ? "made no such call"
          : "ended",
      seconds);
}

struct MarkOptions {
  std::string target;  ///< a process id or a log
  std::string name;
};

int mark(const MarkOptions& options) {
  collector::LogAppender(collector::log_of_target(options.target)).mark(options.name);
  return kOk;
}

/// Whether `attach` or `detach` of the target, a process id or a log, means its heap alone: always
/// with --heap, else where the library was there from the start.
bool is_window(const std::string& target, bool heap_alone) {
  if (!collector::is_pid(target)) return true;
  struct stat process {};
  const bool is_own =
      stat(("/proc/" + target).c_str(), &process) == 0 && process.st_uid == geteuid();
  if (heap_alone || !is_own) return heap_alone;
  const std::string log = collector::log_of_process(std::stoi(target));
  return !log.empty() && !collector::is_of_attached(collector::read_head(log).header);
}

/// Begins it, recording as `host_mode` (GPUPEAK_HOST_…) says. Throws UsageError, also if that takes
/// longer than `seconds`.
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

struct AttachOptions {
  std::string target;  ///< a process id, or a log
  bool heap = false;   ///< alone
  std::string out = "gpupeak.%n.%p.%r.gplog";
  std::string host = "full";
  double seconds = 10;

  int pid() const { return std::stoi(target); }  ///< where is_window() is false
};

const std::map<std::string, uint32_t> kModes{{"auto", GPUPEAK_HOST_AUTO},
                                             {"full", GPUPEAK_HOST_FULL},
                                             {"sampled", GPUPEAK_HOST_SAMPLED},
                                             {"counters", GPUPEAK_HOST_COUNTERS}};

#ifdef GPUPEAK_HAS_ATTACH
constexpr const char* kLibrary = "libgpupeak.so";

/// A thread of the program that is stopped at a safe point, ready to call functions.
class Visit {
 public:
  Visit(pid_t pid, double seconds)
      : pid_(pid), seconds_(seconds), modules_(std::make_unique<TargetModules>(pid)) {
    find_thread();
    const uint64_t near = modules_->function("libc.so", "read");
    const uint64_t system_call = near != 0 ? find_system_call(pid_, near, near + 4096) : 0;
    if (system_call == 0) throw LogError("no system call was found in the program's C library", 0);
    thread_->prepare(system_call);
  }

  bool has_library() const { return modules_->function(kLibrary, "gpupeak_api_attach") != 0; }

  void load(const std::string& library) {
    uint64_t open = modules_->function("libc.so", "dlopen");
    uint64_t error = modules_->function("libc.so", "dlerror");
    if (open == 0) open = modules_->function("libdl.so", "dlopen");
    if (error == 0) error = modules_->function("libdl.so", "dlerror");
    if (open == 0 || error == 0)
      throw UsageError(
          "process {} cannot load libraries: its C library has no dlopen (before glibc 2.34 only "
          "programs that are linked with libdl have it)",
          pid_);
    const uint64_t path = thread_->place(library.size() + 1);
    thread_->write(path, library.c_str(), library.size() + 1);
    constexpr uint64_t kNowAndLocal = 2;
    if (thread_->call(open, {path, kNowAndLocal}) == 0) {
      const uint64_t text = thread_->call(error, {});
      throw UsageError("process {} cannot load the library: {}", pid_,
                       text != 0 ? thread_->read_text(text) : "no reason was given");
    }
    modules_ = std::make_unique<TargetModules>(pid_);
    if (!has_library())
      throw LogError(fmt::format("{} is not the library that this command needs", library), 0);
  }

  void call(const char* function, gpupeak_attach_call& call) {
    const uint64_t at = modules_->function(kLibrary, function);
    if (at == 0) throw UsageError("process {} has a {} of another version", pid_, kLibrary);
    const uint64_t place = thread_->place(sizeof call);
    call.version = GPUPEAK_ATTACH_VERSION;
    thread_->write(place, &call, sizeof call);
    thread_->call(at, {place});
    thread_->read(place, &call, sizeof call);
  }

  /// Whether every other thread was seen outside of the library's hooks, one after the other.
  /// Nothing is hooked and recorded any more, so a thread that is outside does not get in again.
  bool all_are_outside(const gpupeak_attach_call& look) const {
    for (const pid_t thread : threads_of(pid_)) {
      if (thread != thread_->id() && !is_seen_outside(thread, look)) return false;
    }
    return true;
  }

 private:
  void find_thread() {
    const SafePoints points(modules_->get());
    std::string why = "it has no thread";
    const bool is_taken = wait_until(seconds_, std::chrono::milliseconds(50), [&] {
      require_no_filter(pid_);
      return std::ranges::any_of(threads_of(pid_),
                                 [&](pid_t thread) { return take(thread, points, why); });
    });
    if (!is_taken) {
      throw UsageError(
          "no thread of process {} came to a safe point within {:g} s; of the last one: {}. "
          "Nothing has changed; --wait SECONDS tries for longer",
          pid_, seconds_, why);
    }
  }

  bool take(pid_t thread, const SafePoints& points, std::string& why) {
    const Look look = look_at(pid_, thread);
    why = look.not_now;
    if (!why.empty()) return false;
    try {
      auto stopped = std::make_unique<TracedThread>(thread, look);
      why = has_unknown_limit(pid_, stopped->registers())
                ? "it is in a system call with a time limit"
                : points.unsafe_because(thread, stopped->stopped_in());
      if (!why.empty()) return false;
      thread_ = std::move(stopped);
      return true;
    } catch (const LogError& error) {
      why = error.what();
      return false;
    }
  }

  bool is_seen_outside(pid_t thread, const gpupeak_attach_call& look) const {
    return wait_until(seconds_, std::chrono::milliseconds(1),
                      [&] { return is_outside(thread, look).value_or(true); });
  }

  /// None: the thread has ended.
  std::optional<bool> is_outside(pid_t thread, const gpupeak_attach_call& look) const {
    try {
      const Look seen = look_at(pid_, thread);
      if (!seen.not_now.empty() && is_there(thread)) return false;
      const TracedThread stopped(thread, seen);
      Dwfl_Module* const at = dwfl_addrmodule(modules_->get(), stopped.ip());
      const char* const path = at != nullptr ? dwfl_module_info(at, nullptr, nullptr, nullptr,
                                                                nullptr, nullptr, nullptr, nullptr)
                                             : nullptr;
      if (path != nullptr && collector::file_name(path) == kLibrary) return false;
      uint64_t words[8] = {};
      const uint32_t count = std::min<uint32_t>(look.flags_words, 8);
      stopped.read(stopped.thread_pointer() + static_cast<uint64_t>(look.flags_offset), words,
                   count * sizeof *words);
      return std::all_of(words, words + count, [](uint64_t word) { return word == 0; });
    } catch (const LogError&) {
      if (is_there(thread)) return false;
      return std::nullopt;
    }
  }

  bool is_there(pid_t thread) const { return std::ranges::count(threads_of(pid_), thread) > 0; }

  const pid_t pid_;
  const double seconds_;
  std::unique_ptr<TargetModules> modules_;
  std::unique_ptr<TracedThread> thread_;
};

const std::map<uint32_t, std::string> kRefusals{
    {GPUPEAK_ATTACH_PRELOADED,
     "was started with gpupeak: it is recorded already, or its heap where it runs dormant"},
    {GPUPEAK_ATTACH_ALREADY, "is attached already (`gpupeak detach` ends that)"},
    {GPUPEAK_ATTACH_NOT, "is not attached"},
    {GPUPEAK_ATTACH_UNFIT,
     "has a sanitizer's runtime, gained privileges, or confines itself by a filter of system "
     "calls"},
    {GPUPEAK_ATTACH_OWN_MALLOC,
     "has a malloc of its own in place of the C library's: its heap could not be seen"},
    {GPUPEAK_ATTACH_NO_LOG, "cannot write the log "},
    {GPUPEAK_ATTACH_NO_MEMORY, "has no memory left for what is needed"},
    {GPUPEAK_ATTACH_BUSY, "is just being attached to or left by another command"}};

[[noreturn]] void refuse(int pid, const gpupeak_attach_call& call) {
  const auto known = kRefusals.find(call.answer);
  std::string why =
      known != kRefusals.end() ? known->second : "has a libgpupeak.so of another version";
  if (call.answer == GPUPEAK_ATTACH_NO_LOG)
    why += fmt::format("{}: {}", call.log, strerror(call.error));
  throw UsageError("process {} {}", pid, why);
}

void add_fact(gpupeak_attach_call& call, size_t& at, const std::string& name,
              const std::string& value) {
  if (at + name.size() + value.size() + 3 > sizeof call.facts) return;
  memcpy(call.facts + at, name.c_str(), name.size() + 1);
  at += name.size() + 1;
  memcpy(call.facts + at, value.c_str(), value.size() + 1);
  at += value.size() + 1;
}

/// Adds what can be found out about the time before the attach without disturbing the program.
void add_facts_of_before(int pid, gpupeak_attach_call& call) {
  size_t at = 0;
  const uint64_t resident_kib = strtoull(status_of(pid)["VmRSS"].c_str(), nullptr, 10);
  add_fact(call, at, "attach.resident", std::to_string(resident_kib << 10));
  Nvml nvml;
  for (const NvmlHeld& held : nvml.all()) {
    if (held.process == pid)
      add_fact(call, at, "attach.held", fmt::format("{} {} {}", held.index, held.bytes, held.uuid));
  }
}

std::string library_to_load() {
  const fs::path library = preload_library();
  if (library.empty()) throw LogError("libgpupeak.so is not beside this command", 0);
  return fs::canonical(library).string();
}

void set_log(gpupeak_attach_call& call, const std::string& pattern) {
  const std::string path = fs::absolute(pattern).string();
  if (path.size() >= sizeof call.log) throw UsageError("the log's name is too long");
  memcpy(call.log, path.c_str(), path.size() + 1);
}

/// Ends a recording that was not begun wholly. Its log says so.
void leave_half_attached(const AttachOptions& options) {
  try {
    gpupeak_attach_call call{};
    Visit(options.pid(), options.seconds).call("gpupeak_api_detach", call);
  } catch (const std::exception& error) {
    spdlog::warn("what was begun could not be ended: {}", error.what());
  }
}

void begin(const AttachOptions& options, std::unique_ptr<Visit> visit, gpupeak_attach_call& call) {
  try {
    visit->call("gpupeak_api_attach", call);
    if (call.answer == GPUPEAK_ATTACH_DONE) require_no_filter(options.pid());
  } catch (const std::exception&) {
    visit.reset();
    leave_half_attached(options);
    throw;
  }
}

/// Goes on in a child that is in a session of its own; in this process, returns the child's exit
/// code. SIGKILL of a command whose call is under way would end the program, since the kernel lets
/// a thread go on that nobody puts back. Who kills the command does not reach that child.
std::optional<int> go_on_in_child() {
  const SignalsBlocked later;  // until the child has ended
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    return std::nullopt;
  }
  const std::optional<int> status = child > 0 ? wait_for_child(child) : std::nullopt;
  if (child > 0 && !status) throw LogError("how attach or detach ended is not known", 0);
  return status ? std::optional(exit_code(*status)) : std::nullopt;
}

int attach_to(const AttachOptions& options) {
  if (const std::optional<int> code = go_on_in_child()) return *code;
  require_attachable(options.pid());
  const std::string library = library_to_load();
  auto call = std::make_unique<gpupeak_attach_call>();
  {
    const SignalsBlocked later;  // until the program's thread is back where it was
    auto visit = std::make_unique<Visit>(options.pid(), options.seconds);
    if (!visit->has_library()) visit->load(library);
    visit->call("gpupeak_api_attach_look", *call);
    if (call->answer != GPUPEAK_ATTACH_DONE) refuse(options.pid(), *call);
    if (call->was_attached != 0 && !visit->all_are_outside(*call)) {
      throw UsageError(
          "a thread of process {} is still in a call that was recorded before: try again later",
          options.pid());
    }
    *call = {};
    call->host_mode = kModes.at(options.host);
    set_log(*call, options.out);
    add_facts_of_before(options.pid(), *call);
    require_no_filter(options.pid());
    begin(options, std::move(visit), *call);
  }
  if (call->answer != GPUPEAK_ATTACH_DONE) refuse(options.pid(), *call);
  spdlog::info("process {} is recorded from now on in {} (`gpupeak detach {}` ends it)",
               options.pid(), call->log, options.pid());
  return kOk;
}

int detach_from(const AttachOptions& options) {
  if (const std::optional<int> code = go_on_in_child()) return *code;
  require_attachable(options.pid());
  auto call = std::make_unique<gpupeak_attach_call>();
  if (loaded_library(options.pid(), kLibrary).empty())
    throw UsageError("process {} is not attached", options.pid());
  {
    const SignalsBlocked later;  // until the program's thread is back where it was
    Visit visit(options.pid(), options.seconds);
    visit.call("gpupeak_api_detach", *call);
  }
  if (call->answer != GPUPEAK_ATTACH_DONE) refuse(options.pid(), *call);
  spdlog::info("process {} is left: all passes through again. What was recorded is in {}",
               options.pid(), call->log);
  if (call->lost_slots != 0) {
    spdlog::warn("{} places hold something else than what was put there, and were left so",
                 call->lost_slots);
  }
  return kOk;
}

#else
int attach_to(const AttachOptions&) {
  throw UsageError(
      "what was started without gpupeak can be attached to on x86-64 alone: start it with `gpupeak "
      "run --dormant`");
}
constexpr auto detach_from = attach_to;
#endif

int attach(const AttachOptions& options) {
  if (is_window(options.target, options.heap))
    return begin_window(options.target, kModes.at(options.host), options.seconds);
  return attach_to(options);
}

int detach(const AttachOptions& options) {
  if (is_window(options.target, options.heap)) return end_window(options.target, options.seconds);
  return detach_from(options);
}

void add_target(CLI::App& verb, AttachOptions& options) {
  add_process_or_log(verb, options.target);
  add_number(verb, "--wait", options.seconds, 0, 1e6,
             "How long to look for a safe moment, or to wait until it has seen it")
      ->type_name("SECONDS");
  verb.add_flag("--heap", options.heap,
                "The heap alone, of a program that only counts it since an attach");
}

}  // namespace

void add_mark(CommandLine& line) {
  auto [verb, options] = line.add("mark", "Mark this instant in the log of a running process", mark,
                                  R"(  gpupeak mark 4711 'warm-up done'
  gpupeak mark bert.gplog 'warm-up done')");
  add_process_or_log(verb, options.target);
  add_required(verb, "name", options.name, "NAME", "What to call the mark");
}

void add_attach(CommandLine& line) {
  auto [verb, options] = line.add(
      "attach", "Record a program that runs already, started without gpupeak or dormant", attach,
      R"(  gpupeak attach 4711                # it was started without gpupeak
  gpupeak attach -o server.gplog --host auto 4711
  gpupeak run --dormant -o server.gplog -- ./server &
  gpupeak attach 4711                # some time later: its heap is recorded from now on)");
  add_target(verb, options);
  add_value(verb, "-o,--out", options.out, "LOG", "The log: %n program, %p process id, %h host")
      ->capture_default_str();
  add_choice(verb, "--host", options.host, {"full", "auto", "sampled", "counters"},
             "What to record of its heap");
}

void add_detach(CommandLine& line) {
  auto [verb, options] =
      line.add("detach", "End what `attach` has begun; the program runs on", detach,
               R"(  gpupeak detach 4711 && gpupeak report server.gplog)");
  add_target(verb, options);
}

}  // namespace gpupeak::tools
