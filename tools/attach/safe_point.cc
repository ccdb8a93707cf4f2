#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/text/name_match.h"
#include "collector/text/text_format.h"
#include "tools/attach/target.h"

namespace gpupeak::tools {
namespace {

/// Functions of the C library in which threads wait without holding a lock of the loader, of
/// malloc, or of the C library's lists of threads.
constexpr std::string_view kWaits =
    "read readv recv recvfrom recvmsg recvmmsg accept accept4 poll ppoll select pselect "
    "epoll_wait epoll_pwait epoll_pwait2 semop semtimedop getc_unlocked nanosleep "
    "clock_nanosleep usleep sleep pause sigsuspend sigwait sigwaitinfo sigtimedwait wait wait3 "
    "wait4 waitpid waitid pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait "
    "pthread_join pthread_timedjoin_np pthread_clockjoin_np pthread_barrier_wait sem_wait "
    "sem_timedwait sem_clockwait fgets fgetc getc getchar getline getdelim fread syscall";
/// Functions of the C library in which threads begin.
constexpr std::string_view kBegins = "start_thread clone clone3";

/// Functions that the calls lead to. A file that defines one of them may hold its lock.
constexpr std::array<std::string_view, 17> kCalled{
    "malloc",        "calloc",          "realloc",   "free",         "memalign",
    "aligned_alloc", "posix_memalign",  "sbrk",      "dlopen",       "dlerror",
    "dlsym",         "dl_iterate_phdr", "sigaction", "__cxa_atexit", "__register_atfork",
    "cuInit",        "nvmlInit_v2"};

struct Frame {
  std::string path;             ///< empty: code that no module has
  std::string module;           ///< its file name
  std::string function;         ///< empty: not known
  bool is_interrupted = false;  ///< a signal has interrupted the thread here
};

bool is_libc(const Frame& frame) {
  return frame.module.starts_with("libc.so.6") || frame.module.starts_with("libc-2.") ||
         frame.module.starts_with("libpthread");
}

int add_frame(Dwfl_Frame* state, void* data) {
  constexpr size_t kMostFrames = 2000;
  auto& frames = *static_cast<std::vector<Frame>*>(data);
  Dwarf_Addr pc = 0;
  bool is_activation = false;
  if (frames.size() == kMostFrames || !dwfl_frame_pc(state, &pc, &is_activation))
    return DWARF_CB_ABORT;
  if (!is_activation) --pc;
  Frame& frame = frames.emplace_back();
  frame.is_interrupted = is_activation && frames.size() > 1;
  Dwfl_Module* const module = dwfl_addrmodule(dwfl_thread_dwfl(dwfl_frame_thread(state)), pc);
  if (module == nullptr) return DWARF_CB_OK;
  frame.path = path_of(module);
  frame.module = collector::file_name(frame.path);
  GElf_Off offset = 0;
  GElf_Sym symbol{};
  const char* const name =
      dwfl_module_addrinfo(module, pc, &offset, &symbol, nullptr, nullptr, nullptr);
  // If the function has no symbol, the nearest symbol is that of another function.
  if (name != nullptr && offset < symbol.st_size) {
    const std::string_view full = name;
    frame.function = full.substr(0, full.find('@'));
  }
  return DWARF_CB_OK;
}

/// The name without the prefixes under which the C library has its functions once more.
std::string plain_name(std::string_view name) {
  for (const std::string_view prefix : {"__libc_", "_IO_", "__"}) {
    if (name.starts_with(prefix)) return std::string(name.substr(prefix.size()));
  }
  return std::string(name);
}

std::string shown(const Frame& frame) {
  return frame.function.empty() ? "a function without a name" : frame.function;
}

/// Why the thread is not safe in the frames [0, end), the C library's, innermost first; the
/// program's own follow. Empty: it is safe. A function that waits may do more than that: getline()
/// allocates. So the thread must be seen waiting.
std::string unsafe_wait(const std::vector<Frame>& frames, size_t end, long system_call) {
  if (end == 0) return {};
  if (!is_wait(system_call)) return "it runs in the C library";
  if (end == frames.size()) return "it is a thread of the C library's";
  const Frame& called = frames[end - 1];
  return collector::is_word_of(kWaits, plain_name(called.function))
             ? std::string()
             : fmt::format("it is in {} of the C library", shown(called));
}

std::string unsafe_frame(std::vector<Frame> frames, long system_call) {
  // The outermost frame of the first thread is the program's _start.
  const size_t count = frames.size();
  if (count > 1 && frames[count - 2].function.starts_with("__libc_start_main")) frames.pop_back();
  size_t inner = 0;
  while (inner < frames.size() && is_libc(frames[inner])) ++inner;
  size_t outer = frames.size();
  while (outer > inner && is_libc(frames[outer - 1])) --outer;
  for (size_t i = 0; i < frames.size(); ++i) {
    const Frame& frame = frames[i];
    if (frame.is_interrupted) return "it is in a signal handler";
    if (frame.module.starts_with("ld-linux") || frame.module.starts_with("ld-2."))
      return "it is in the loader";
    if (frame.module.starts_with("libgpupeak")) return "it is in a hook of gpupeak's";
    if (frame.module.empty()) return "it runs code that no file has";
    const bool is_begin = frame.function.empty() ||
                          collector::is_word_of(kBegins, plain_name(frame.function)) ||
                          frame.function.starts_with("__libc_start");
    const bool is_between = i >= inner && is_libc(frame);
    if (is_between && (i < outer || !is_begin))
      return fmt::format("it was called by {} of the C library", shown(frame));
  }
  return unsafe_wait(frames, inner, system_call);
}

}  // namespace

SafePoints::SafePoints(Dwfl* modules) : modules_(modules) {
  each_symbol(modules, "", [this](const std::string& path, std::string_view name, const GElf_Sym&) {
    if (std::ranges::find(kCalled, name) != kCalled.end()) called_by_us_.emplace(path, name);
  });
}

std::string SafePoints::unsafe_because(pid_t thread, long system_call) const {
  std::vector<Frame> frames;
  const int result = dwfl_getthread_frames(modules_, thread, add_frame, &frames);
  if (result != 0) {
    return fmt::format("its stack cannot be followed to its begin{}",
                       frames.empty() ? "" : fmt::format(" ({} frames)", frames.size()));
  }
  if (frames.empty()) return "it has no stack";
  for (const Frame& frame : frames) {
    const auto found = called_by_us_.find(frame.path);
    if (found != called_by_us_.end() && !is_libc(frame))
      return fmt::format("it is in {}, whose {} may be what holds it", frame.module, found->second);
  }
  return unsafe_frame(std::move(frames), system_call);
}

}  // namespace gpupeak::tools
