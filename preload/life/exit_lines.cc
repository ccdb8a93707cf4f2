#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <initializer_list>

#include "base/environment.h"
#include "base/signals_held.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "life/process.h"
#include "log/log.h"
#include "log/log_file.h"
#include "stack/module_map.h"

namespace gpupeak::preload {
namespace {

constexpr size_t kMaxEnvironment = 4096;
constinit bool g_leave_out_command = false;

/// Whether only root or this process's own user can have put this file or folder there.
bool is_trustworthy(const char* path) {
  struct stat status;
  if (sys::failed(sys::stat(path, &status))) return false;
  const auto user = sys::geteuid();
  return (status.st_uid == 0 || status.st_uid == user) &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// Finds the command in an installation (lib/gpupeak/ and bin/) or a build folder (preload/ and
/// tools/).
bool find_command(Path& command) {
  const std::string_view own = own_path();
  const size_t slash = own.rfind('/');
  const std::string_view folder = slash == std::string_view::npos ? "." : head(own, slash);
  for (const std::string_view place :
       {"/../../bin/gpupeak", "/../bin/gpupeak", "/../tools/gpupeak"}) {
    command.clear();
    command.add(folder).add(head(place, place.rfind('/')));
    if (!is_trustworthy(command.c_str())) continue;
    command.add("/gpupeak");
    if (sys::access(command.c_str(), X_OK) == 0) return is_trustworthy(command.c_str());
  }
  return false;
}

/// The environment without LD_PRELOAD and LD_AUDIT, so that the command does not watch itself.
char** bare_environment() {
  static char* variables[kMaxEnvironment + 1];
  size_t n = 0;
  char** entry = environ;  // none after clearenv()
  for (; entry != nullptr && *entry != nullptr && n < kMaxEnvironment; ++entry) {
    if (strncmp(*entry, "LD_PRELOAD=", 11) != 0 && strncmp(*entry, "LD_AUDIT=", 9) != 0)
      variables[n++] = *entry;
  }
  variables[n] = nullptr;
  return variables;
}

/// Runs the command and waits. The child shares our memory until it has called exec, sends no
/// SIGCHLD and is not seen by the program's own wait calls. False if it could not be run.
bool run_command(const char* command) {
  const char* arguments[] = {command, "report", "--short", "--", log_path().data(), nullptr};
  char** variables = bare_environment();
  alignas(16) static char stack[64 << 10];
  // The program's handlers do not expect to run after its end, and for so long; a timer's least of
  // all. The signals by which somebody ends or stops us are let through.
  const SignalsHeld held(SignalsHeld::bit(SIGINT) | SignalsHeld::bit(SIGTERM) |
                         SignalsHeld::bit(SIGHUP) | SignalsHeld::bit(SIGQUIT) |
                         SignalsHeld::bit(SIGTSTP));
  struct Start {
    const char* command;
    const char** arguments;
    char** variables;
    const SignalsHeld& held;
  } start{command, arguments, variables, held};
  const int child = clone(
      [](void* data) -> int {
        const auto* s = static_cast<const Start*>(data);
        sys::dup3(2, 1, 0);  // all it says goes to stderr
        s->held.let_go();
        sys::execve(s->command, s->arguments, s->variables);
        sys::exit(127);
        return 127;
      },
      stack + sizeof stack, CLONE_VM | CLONE_VFORK, &start);
  if (child < 0) return false;
  int status = 0;
  long result;
  do {
    result = sys::wait4(child, &status, __WALL);
  } while (result == -EINTR);
  // Where the program ignores SIGCHLD the kernel keeps no end of a child that has called exec. One
  // that could not call it ends otherwise, and its end is kept.
  if (result == -ECHILD) return true;
  return result == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void print_counters() {
  const gpupeak_counters_page& page = counters();
  for (uint32_t i = 0; i < page.device_count && i < GPUPEAK_LOG_MAX_DEVICES; ++i)
    say(Text<256>("Peak device memory (GPU ", i, "): ", page.device[i].total.peak, " bytes"));
  if (environment().host_mode != GPUPEAK_HOST_OFF)
    say(Text<256>("Peak host heap (usable, within 64 KiB a thread): ", page.heap.peak, " bytes"));
  say(Path("log: ", log_path()));
}

}  // namespace

void leave_out_command() {
  g_leave_out_command = true;
}

void print_exit_lines() {
  if (!environment().summary || environment().quiet || !stderr_is_unchanged()) return;
  Path command;
  if (g_leave_out_command || !find_command(command) || !run_command(command.c_str()))
    print_counters();
}

}  // namespace gpupeak::preload
