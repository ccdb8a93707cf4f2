#include "life/children.h"

#include <elf.h>
#include <link.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/call_filter.h"
#include "base/clock.h"
#include "base/elf_lookup.h"
#include "base/environment.h"
#include "base/hook_scope.h"
#include "base/kept_errno.h"
#include "base/memory.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "gpupeak/pages.h"
#include "life/process.h"
#include "log/log.h"

namespace gpupeak::preload {
namespace {

/// A limit, since a server may lose children for years.
constexpr uint32_t kMostNoted = 1000;
constinit std::atomic<uint32_t> g_noted{0};

constexpr std::string_view kPreload = "LD_PRELOAD=", kOurs = "GPUPEAK_";
constexpr size_t kMostVariables = 64;
/// Larger lists are left as they are: the list lies on the caller's stack.
constexpr size_t kMostEntries = 4096, kMostPreloadBytes = 16 << 10;

constinit char g_text[12 << 10] = {};  // copies: setproctitle() writes over the first environment
constinit size_t g_text_bytes = 0;
constinit char* g_variables[kMostVariables] = {};
constinit size_t g_variable_count = 0;
constinit const char* g_library = nullptr;  // as the loader knows it; nullptr: we are not kept

/// The number of characters before the first of `ends`, or before the text's end.
size_t length_before(const char* text, const char* ends) {
  size_t bytes = 0;
  while (text[bytes] != 0 && strchr(ends, text[bytes]) == nullptr) ++bytes;
  return bytes;
}
const char* skip(const char* text, const char* over) {
  while (*text != 0 && strchr(over, *text) != nullptr) ++text;
  return text;
}

char* keep(const char* text) {
  const size_t bytes = strlen(text) + 1;
  if (bytes > sizeof g_text - g_text_bytes) return nullptr;
  char* const copy = g_text + g_text_bytes;
  memcpy(copy, text, bytes);
  g_text_bytes += bytes;
  return copy;
}

/// Whether LD_PRELOAD's value has our library, by whatever path.
bool names_us(const char* value) {
  const std::string_view ours = file_name(g_library);
  while (*value != 0) {
    const size_t bytes = length_before(value, ": ");
    if (file_name({value, bytes}) == ours) return true;
    value = skip(value + bytes, ": ");
  }
  return false;
}

/// The entry's name with its '='.
std::string_view name_of(const char* entry) {
  return {entry, length_before(entry, "=") + 1};
}

const char* entry_of(char* const* variables, std::string_view name) {
  for (; variables != nullptr && *variables != nullptr; ++variables) {
    if (begins(*variables, name)) return *variables;
  }
  return nullptr;
}

/// Finds a program as execvp() does, but passes over files that may not be run.
long open_in_path(const char* name) {
  std::string_view folders = variable("PATH");
  if (folders.empty()) folders = "/bin:/usr/bin";
  while (true) {
    const size_t end = length_before(folders.data(), ":");  // the value of a variable: terminated
    const std::string_view folder = head(folders, end);
    const Text<1024> path(folder, folder.empty() ? "" : "/", name);
    const bool fits = folder.size() + 1 + strlen(name) < 1024;
    if (fits && !sys::failed(sys::access(path.c_str(), X_OK)))
      return sys::open_to_read(path.c_str());
    if (end >= folders.size()) return -ENOENT;
    folders = tail(folders, end + 1);
  }
}

/// Whether the program gets its owner's rights, or rights that its file has.
bool gains_privileges(long fd, const struct stat& info) {
  if ((info.st_mode & (S_ISUID | S_ISGID)) != 0) return true;
  char capabilities[64];
  return !sys::failed(sys::fgetxattr(fd, "security.capability", capabilities, sizeof capabilities));
}

bool uses_glibc(long fd, const ElfW(Ehdr) & header) {
  for (int i = 0; i < header.e_phnum && i < 64; ++i) {
    ElfW(Phdr) segment;
    const auto at = static_cast<int64_t>(header.e_phoff + static_cast<size_t>(i) * sizeof segment);
    if (sys::pread(fd, &segment, sizeof segment, at) != sizeof segment) return false;
    if (segment.p_type != PT_INTERP) continue;
    char loader[256] = {};
    if (sys::failed(
            sys::pread(fd, loader, sizeof loader - 1, static_cast<int64_t>(segment.p_offset)))) {
      return false;
    }
    return begins(file_name(loader), "ld-linux");
  }
  return false;  // linked statically
}

enum class Fit {
  kCannot,
  kOtherLoader,  ///< for a loader that takes no library of ours and writes so to standard error
  kCan,
};

/// Whether the program could have our library, and is allowed to.
Fit fit_of(long opened, int depth = 0) {
  constexpr int kMostInterpreters = 4;  // the kernel's limit
  const sys::Descriptor file(opened);
  struct stat info;
  if (!file.is_open() || sys::failed(sys::fstat(file.fd, &info)) || !S_ISREG(info.st_mode))
    return Fit::kCannot;
  union {
    ElfW(Ehdr) elf;
    char script[256];
  } begin;
  const long bytes = sys::pread(file.fd, begin.script, sizeof begin.script - 1, 0);
  if (bytes < 2) return Fit::kCannot;
  begin.script[bytes] = 0;
  if (begin.script[0] == '#' && begin.script[1] == '!') {
    char* const line = const_cast<char*>(skip(begin.script + 2, " \t"));
    line[length_before(line, " \t\n")] = 0;
    return depth < kMostInterpreters ? fit_of(sys::open_to_read(line), depth + 1) : Fit::kCannot;
  }
  if (bytes < static_cast<long>(sizeof begin.elf) ||
      memcmp(begin.elf.e_ident, ELFMAG, SELFMAG) != 0) {
    return Fit::kCannot;  // a script without a first line: the shell comes by another exec
  }
  if (begin.elf.e_ident[EI_CLASS] != ELFCLASS64 || begin.elf.e_machine != arch::kMachine)
    return Fit::kOtherLoader;
  const bool can = !gains_privileges(file.fd, info) && uses_glibc(file.fd, begin.elf);
  return can ? Fit::kCan : Fit::kCannot;
}

Fit fit_of(const StartedProgram& program) {
  if (program.path[0] == 0) {
    // The program is an open file: opened again, it is read from its beginning.
    return fit_of(sys::open_to_read(Text<64>("/proc/self/fd/", program.folder).c_str()));
  }
  const bool is_name = program.searched && strchr(program.path, '/') == nullptr;
  return fit_of(is_name ? open_in_path(program.path)
                        : sys::open_to_read(program.path, program.folder));
}

}  // namespace

void note_killed_child(int child, int signal) {
  const bool counting = g_process->counting != 0 && signal == SIGKILL;
  if (!recording() && !counting) return;
  const KeptErrno program_errno;
  const HookScope scope;
  // A vfork child shares its parent's memory, but the parent's children are not its own.
  if (scope.entered() && sys::getpid() == g_process->pid &&
      g_noted.fetch_add(1, std::memory_order_relaxed) < kMostNoted) {
    if (!recording()) open_counted_log(0);
    if (recording()) define_fact("child.killed", Text<64>(child, " ", signal, " ", monotonic_ns()));
  }
}

void remember_own_variables() {
  const Environment& e = environment();
  // Only below `gpupeak run`: if LD_PRELOAD was set by hand, a program may be left out on purpose.
  if (!e.keep_preload || e.children_pattern.view().empty() || e.run_pid == 0 ||
      variables() == nullptr)
    return;
  const char* const path = module_path(reinterpret_cast<const void*>(&remember_own_variables));
  if (path[0] != '/') return;
  for (char** entry = variables(); *entry != nullptr && g_variable_count < kMostVariables;
       ++entry) {
    if (!begins(*entry, kOurs)) continue;
    if (char* const copy = keep(*entry)) g_variables[g_variable_count++] = copy;
  }
  g_library = keep(path);
}

bool find_variables_to_change(const StartedProgram& program, char* const* variables,
                              ChangedVariables& changed) {
  if (g_library == nullptr || program.path == nullptr || has_given_up_lookups()) return false;
  const char* const preload = entry_of(variables, kPreload);
  const bool has_us = preload != nullptr && names_us(preload + kPreload.size());
  bool lacks = !has_us;
  for (size_t i = 0; i < g_variable_count; ++i)
    lacks = lacks || entry_of(variables, name_of(g_variables[i])) == nullptr;
  const Fit fit = fit_of(program);
  changed.without_us = fit == Fit::kOtherLoader;
  if (changed.without_us ? !has_us : !lacks || fit != Fit::kCan) return false;
  changed.preload = changed.without_us || !has_us;
  size_t count = 0;
  while (variables != nullptr && variables[count] != nullptr) ++count;
  changed.entries = count + g_variable_count + 2;
  changed.preload_bytes =
      kPreload.size() + strlen(g_library) + 2 + (preload != nullptr ? strlen(preload) : 0);
  return changed.entries <= kMostEntries && changed.preload_bytes <= kMostPreloadBytes;
}

void change_variables(char* const* variables, const ChangedVariables& changed, char** list,
                      char* preload) {
  size_t count = 0;
  const char* before = "";
  for (; variables != nullptr && *variables != nullptr; ++variables) {
    if (changed.preload && begins(*variables, kPreload)) {
      before = *variables + kPreload.size();
    } else {
      list[count++] = *variables;
    }
  }
  for (size_t i = 0; i < g_variable_count; ++i) {
    list[count] = nullptr;
    if (entry_of(list, name_of(g_variables[i])) == nullptr) list[count++] = g_variables[i];
  }
  if (changed.preload) {
    char* at = preload;
    const auto add = [&at](std::string_view text) {
      memcpy(at, text.data(), text.size());
      at += text.size();
    };
    add(kPreload);
    if (!changed.without_us) add(g_library);
    const std::string_view ours = file_name(g_library);
    for (before = skip(before, ": "); *before != 0; before = skip(before, ": ")) {
      const std::string_view other(before, length_before(before, ": "));
      before += other.size();
      if (file_name(other) == ours) continue;
      if (at[-1] != '=') add(":");
      add(other);
    }
    *at = 0;
    if (at[-1] != '=') list[count++] = preload;
  }
  list[count] = nullptr;
}

void mark_children() {
  if (environ == nullptr) return;
  constexpr std::string_view kPid = "GPUPEAK_RUN_PID=", kId = "GPUPEAK_RUN_ID=";
  constexpr size_t kEntryBytes = 40;
  size_t count = 0;
  while (environ[count] != nullptr) ++count;
  const size_t list_bytes = (count + 3) * sizeof(char*);
  void* at = map_pages(whole_pages(list_bytes + 2 * kEntryBytes));
  if (at == nullptr) return;
  char** list = static_cast<char**>(at);
  size_t n = 0;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!begins(*entry, kPid) && !begins(*entry, kId)) list[n++] = *entry;
  }
  Text<kEntryBytes> pid(kPid, sys::getpid()), id(kId);
  id.add_hex(run_id());
  char* text = static_cast<char*>(at) + list_bytes;
  for (const auto* own : {&pid, &id}) {
    list[n++] = static_cast<char*>(memcpy(text, own->c_str(), own->view().size() + 1));
    text += kEntryBytes;
  }
  environ = list;
}

}  // namespace gpupeak::preload
