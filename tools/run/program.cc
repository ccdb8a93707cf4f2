#include "tools/run/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "collector/text/sanitize.h"
#include "tools/run/limit.h"
#include "tools/shared/child.h"
#include "tools/shared/command_line.h"
#include "tools/shared/process_stat.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;

void set_unless_empty(const char* name, const std::string& value) {
  if (!value.empty()) setenv(name, value.c_str(), 1);
}

/// Asks glibc for more room for thread-local storage of libraries that are opened later. An audit
/// library has a C library of its own, which takes some of this room.
void make_up_for_audit() {
  const std::string name = "glibc.rtld.optional_static_tls";
  const char* others = getenv("GLIBC_TUNABLES");
  std::string tunables = others != nullptr ? others : "";
  if (tunables.find(name + "=") != std::string::npos) return;
  if (!tunables.empty()) tunables += ":";
  constexpr int kDefaultBytes = 512, kMoreBytes = 2048;
  tunables += fmt::format("{}={}", name, kDefaultBytes + kMoreBytes);
  setenv("GLIBC_TUNABLES", tunables.c_str(), 1);
}

}  // namespace

[[noreturn]] void become(const std::vector<std::string>& command, int failure) {
  const std::vector<char*> arguments = exec_arguments(command);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  if (failure < 0)
    say("cannot run {}: {}", collector::escape(command[0]), strerror(error));
  else if (write(failure, &error, sizeof error) != sizeof error)
    _exit(kCannotExec);
  _exit(error == ENOENT ? kNotFound : kCannotExec);
}

[[noreturn]] void exec_program(const RunOptions& options, const fs::path& library,
                               const std::string& pattern, const std::string& children, uint64_t id,
                               int failure) {
  const char* others = getenv("LD_PRELOAD");
  const std::string preload =
      others != nullptr && *others != 0 ? library.string() + ":" + others : library.string();
  if (!has_other_loader(program_file(options.command[0]))) setenv("LD_PRELOAD", preload.c_str(), 1);
  setenv("GPUPEAK_OUT", pattern.c_str(), 1);
  setenv("GPUPEAK_CHILDREN_OUT", children.c_str(), 1);
  setenv("GPUPEAK_SUMMARY", "off", 1);
  setenv("GPUPEAK_RUN_PID", std::to_string(getpid()).c_str(), 1);
  setenv("GPUPEAK_RUN_ID", fmt::format("{:016x}", id).c_str(), 1);
  if (options.audit) {
    const char* audits = getenv("LD_AUDIT");
    const std::string own = (library.parent_path() / "libgpupeak_audit.so").string();
    setenv("LD_AUDIT", (audits != nullptr && *audits != 0 ? own + ":" + audits : own).c_str(), 1);
    make_up_for_audit();
  }
  set_unless_empty("GPUPEAK_HOST", options.dormant ? "counters" : options.host);
  set_unless_empty("GPUPEAK_LOG_MAX", options.log_max);
  set_unless_empty("GPUPEAK_LOG_MODE", options.log_mode);
  set_unless_empty("GPUPEAK_CHILDREN", options.children);
  set_unless_empty("GPUPEAK_PYTHON", options.python);
  set_unless_empty("GPUPEAK_LIMIT", limit_variable(options.limit, options.gpu));
  if (!options.arena_rules.empty())
    setenv("GPUPEAK_POOL_RULES", fs::absolute(options.arena_rules).c_str(), 1);
  if (options.quiet) setenv("GPUPEAK_QUIET", "1", 1);
  if (options.last_use) setenv("GPUPEAK_LAST_USE", "1", 1);
  if (options.ort_nodes) setenv("GPUPEAK_ORT_NODES", "1", 1);
  // Every event gets a time, so that phases from outside begin between the right events.
  if (!options.phases_on_output.empty()) setenv("GPUPEAK_STAMP_ALL", "1", 1);
  become(options.command, failure);
}

}  // namespace gpupeak::tools
