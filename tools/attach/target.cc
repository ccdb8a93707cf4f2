#include "tools/attach/target.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "collector/text/error.h"
#include "collector/text/name_match.h"
#include "collector/text/text_format.h"
#include "tools/shared/process_stat.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;
using collector::UsageError;

[[noreturn]] void refuse(pid_t pid, const std::string& why) {
  throw UsageError("process {} {}", pid, why);
}

std::vector<std::string> mapped_files(pid_t pid) {
  std::vector<std::string> files;
  std::istringstream lines(kernel_text(of_process(pid, "maps")).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find('/');
    if (at != std::string::npos && (files.empty() || files.back() != line.substr(at)))
      files.push_back(line.substr(at));
  }
  return files;
}

bool gained_privileges(pid_t pid) {
  struct stat program {};
  if (stat(of_process(pid, "exe").c_str(), &program) == 0 &&
      (program.st_mode & (S_ISUID | S_ISGID)) != 0)
    return true;
  const std::string vector = kernel_text(of_process(pid, "auxv")).value_or("");
  Elf64_auxv_t entry;
  for (size_t at = 0; at + sizeof entry <= vector.size(); at += sizeof entry) {
    memcpy(&entry, vector.data() + at, sizeof entry);
    if (entry.a_type == AT_SECURE) return entry.a_un.a_val != 0;
  }
  return false;
}

void require_architecture(pid_t pid) {
  std::ifstream in(of_process(pid, "exe"), std::ios::binary);
  Elf64_Ehdr header{};
  in.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!in || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    refuse(pid, "has a program file that cannot be read");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
    refuse(pid, "is not a 64-bit x86 program: only such a one can be attached to");
}

void require_loader(pid_t pid) {
  constexpr std::array kSanitizers = {"libasan.so",   "libtsan.so", "liblsan.so",
                                      "libhwasan.so", "libmsan.so", "libclang_rt."};
  bool has_libc = false;
  for (const std::string& path : mapped_files(pid)) {
    const std::string name(collector::file_name(path));
    if (name.starts_with("ld-musl-")) refuse(pid, "runs with musl: its C library is not glibc");
    for (const char* sanitizer : kSanitizers) {
      if (name.starts_with(sanitizer)) refuse(pid, "has a sanitizer's runtime: " + name);
    }
    if (name.starts_with("libc.so.6") || name.starts_with("libc-2.")) has_libc = true;
    const bool is_needed = name.starts_with("libc") || name.starts_with("libgpupeak.so");
    if (is_needed && name.ends_with(" (deleted)"))
      refuse(pid, "has a library that has been replaced on the disk since: " + name);
  }
  if (!has_libc)
    refuse(pid, "has not loaded glibc: it is linked statically, or not by a C library");
}

/// Held until this command ends.
void lock_target(pid_t pid) {
  // Only its own user can open this file. It is the process itself that is locked: its id may be
  // given again meanwhile, but then to another file.
  const int file = open(of_process(pid, "environ").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) refuse(pid, "may not be looked at");
  if (flock(file, LOCK_EX | LOCK_NB) != 0)
    refuse(pid, "is just being attached to or left by another command");
}

/// Checks whose process it is, whether it runs, and where.
void require_own_target(pid_t pid) {
  auto status = status_of(pid);
  if (status.empty()) throw UsageError("there is no process {}", pid);
  if (status["Tgid"] != std::to_string(pid))
    refuse(pid, "is a thread of process " + status["Tgid"] + ": name that");
  if (pid == getpid()) refuse(pid, "is this command");
  std::array<unsigned, 4> users{};
  std::istringstream(status["Uid"]) >> users[0] >> users[1] >> users[2] >> users[3];
  if (std::ranges::any_of(users, [](unsigned user) { return user != geteuid(); })) {
    refuse(pid,
           fmt::format("is of user {}, you are user {}: only a program of your own is attached to",
                       users[1], geteuid()));
  }
  lock_target(pid);
  if (const std::string state = status["State"].substr(0, 1); state == "Z" || state == "X")
    refuse(pid, threads_of(pid).size() > 1
                    ? "runs on without its main thread, which has left: it cannot be looked at"
                    : "has ended");
  else if (status["TracerPid"] != "0")  // who may also have stopped it
    refuse(pid, "is traced already, by process " + status["TracerPid"] + " (a debugger, strace?)");
  else if (state == "T" || state == "t")
    refuse(pid, "is stopped: let it go on first");
  for (const char* name : {"user", "pid", "mnt"}) {
    if (!is_in_our_namespace(pid, name))
      refuse(pid,
             "is in another container (another namespace of its kind), or may not be looked at: "
             "run this command where it runs");
  }
  if (link_of(pid, "root") != link_of(getpid(), "root"))
    refuse(pid, "has another root directory: run this command where it runs");
}

/// Finds no debugging information: the tables for unwinding are in the files themselves, and a
/// search might ask servers.
int no_debug_information(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*,
                         GElf_Word, char**) {
  return -1;
}

constexpr Dwfl_Callbacks kCallbacks{.find_elf = dwfl_linux_proc_find_elf,
                                    .find_debuginfo = no_debug_information,
                                    .section_address = nullptr,
                                    .debuginfo_path = nullptr};

/// Functions of the C library in which threads wait without holding a lock of the loader, of
/// malloc, or of the C library's lists of threads.
constexpr std::string_view kWaitingFunctions =
    "read readv recv recvfrom recvmsg recvmmsg accept accept4 poll ppoll select pselect epoll_wait "
    "epoll_pwait epoll_pwait2 semop semtimedop getc_unlocked nanosleep clock_nanosleep usleep "
    "sleep pause sigsuspend sigwait sigwaitinfo sigtimedwait wait wait3 wait4 waitpid waitid "
    "pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait pthread_join "
    "pthread_timedjoin_np pthread_clockjoin_np pthread_barrier_wait sem_wait sem_timedwait "
    "sem_clockwait fgets fgetc getc getchar getline getdelim fread syscall";
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

/// The path of a module's file; empty: it has none.
std::string path_of(Dwfl_Module* module) {
  const char* const path =
      dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  return path != nullptr ? path : "";
}

/// Visits what modules define for others, if their file names begin with `file_name`. `symbol`:
/// with its address in the process.
using VisitSymbol =
    std::function<void(const std::string& path, std::string_view name, const GElf_Sym& symbol)>;
void each_symbol(Dwfl* modules, const std::string& file_name, const VisitSymbol& visit) {
  const auto look = [&](Dwfl_Module* module) {
    const std::string path = path_of(module);
    if (path.empty() || !collector::file_name(path).starts_with(file_name)) return;
    GElf_Addr bias = 0;
    Elf* const elf = dwfl_module_getelf(module, &bias);
    for (Elf_Scn* section = nullptr;
         elf != nullptr && (section = elf_nextscn(elf, section)) != nullptr;) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_DYNSYM) continue;
      Elf_Data* const symbols = elf_getdata(section, nullptr);
      for (size_t i = 0; symbols != nullptr && i < header.sh_size / header.sh_entsize; ++i) {
        GElf_Sym symbol;
        if (gelf_getsym(symbols, static_cast<int>(i), &symbol) == nullptr ||
            symbol.st_shndx == SHN_UNDEF)
          continue;
        const char* const name = elf_strptr(elf, header.sh_link, symbol.st_name);
        symbol.st_value += bias;
        if (name != nullptr) visit(path, name, symbol);
      }
    }
  };
  dwfl_getmodules(
      modules,
      [](Dwfl_Module* module, void**, const char*, Dwarf_Addr, void* data) -> int {
        (*static_cast<decltype(look)*>(data))(module);
        return DWARF_CB_OK;
      },
      const_cast<void*>(static_cast<const void*>(&look)), 0);
}

int add_frame(Dwfl_Frame* state, void* data) {
  constexpr size_t kMostWalked = 2000;
  auto& frames = *static_cast<std::vector<Frame>*>(data);
  Dwarf_Addr pc = 0;
  bool is_activation = false;
  if (frames.size() == kMostWalked || !dwfl_frame_pc(state, &pc, &is_activation))
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
  return collector::is_word_of(kWaitingFunctions, plain_name(called.function))
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

void require_no_filter(pid_t pid) {
  for (const pid_t thread : threads_of(pid)) {
    auto status = status_of(thread);
    if (status.empty()) continue;  // it has ended
    if (status["Seccomp"] != "0") {
      refuse(pid, fmt::format("confines itself by a filter of system calls, which may end it for "
                              "one of ours (thread {})",
                              thread));
    }
  }
}

void require_attachable(pid_t pid) {
  require_own_target(pid);
  require_no_filter(pid);
  if (gained_privileges(pid))
    refuse(pid, "has gained privileges (set-user-id, set-group-id or capabilities)");
  require_architecture(pid);
  require_loader(pid);
}

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> threads = numbers_in(of_process(pid, "task"));
  std::ranges::sort(threads, {}, [pid](pid_t id) { return std::pair(id != pid, id); });
  return threads;
}

std::string loaded_library(pid_t pid, const std::string& file_name) {
  for (const std::string& path : mapped_files(pid)) {
    const std::string name(collector::file_name(path));
    if (name == file_name || name == file_name + " (deleted)") return path;
  }
  return {};
}

TargetModules::TargetModules(pid_t pid) : dwfl_(dwfl_begin(&kCallbacks)) {
  if (dwfl_ == nullptr || dwfl_linux_proc_report(dwfl_.get(), pid) != 0 ||
      dwfl_report_end(dwfl_.get(), nullptr, nullptr) != 0 ||
      dwfl_linux_proc_attach(dwfl_.get(), pid, true) != 0)
    refuse(pid, "may not be looked at: its memory map cannot be read");
}

uint64_t TargetModules::function(const std::string& module, const std::string& name) const {
  uint64_t found = 0;
  each_symbol(dwfl_.get(), module,
              [&](const std::string&, std::string_view defined, const GElf_Sym& symbol) {
                if (found == 0 && defined == name && GELF_ST_TYPE(symbol.st_info) == STT_FUNC)
                  found = symbol.st_value;
              });
  return found;
}

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
