#include "tools/run/program.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "collector/files/regular_file.h"
#include "collector/rules/cards.h"
#include "collector/summary/gate.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "gpupeak/log_format.h"
#include "tools/run/logs.h"
#include "tools/shared/child.h"
#include "tools/shared/command_line.h"
#include "tools/shared/process_stat.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;

bool can_be_preloaded(const fs::path& path) {
  return path.string().find_first_of(" :") == std::string::npos;
}

/// Whether `folder` is ours and nobody else can change it. Makes the folder if it is not there.
bool is_own_folder(const fs::path& folder) {
  struct stat status {};
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return false;
  return lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// The folders for links, best first: in the user's cache, else among temporary files.
std::vector<fs::path> places() {
  std::vector<fs::path> all;
  const char* cache = getenv("XDG_CACHE_HOME");
  const char* home = getenv("HOME");
  if (cache != nullptr && cache[0] == '/')
    all.push_back(fs::path(cache) / "gpupeak");
  else if (home != nullptr && home[0] == '/')
    all.push_back(fs::path(home) / ".cache" / "gpupeak");
  all.push_back(fmt::format("/tmp/gpupeak-{}", geteuid()));
  all.push_back(fmt::format("/dev/shm/gpupeak-{}", geteuid()));
  return all;
}

bool leads_to(const fs::path& link, const fs::path& target) {
  std::error_code error;
  return fs::read_symlink(link, error) == target;
}

}  // namespace

fs::path preloadable_name(const fs::path& library) {
  if (can_be_preloaded(library)) return library;
  const fs::path target = library.parent_path();
  std::error_code error;
  for (const fs::path& place : places()) {
    if (!can_be_preloaded(place)) continue;
    fs::create_directories(place.parent_path(), error);
    if (!is_own_folder(place)) continue;
    const fs::path link =
        place / fmt::format("lib-{:016x}", std::hash<std::string>{}(target.string()));
    if (leads_to(link, target)) return link / library.filename();
    const fs::path fresh = place / fmt::format("lib-{}.new", getpid());
    fs::create_directory_symlink(target, fresh, error);
    fs::rename(fresh, link, error);
    if (leads_to(link, target)) return link / library.filename();
  }
  throw std::runtime_error(
      fmt::format("{} has a space or a colon in its path, which LD_PRELOAD cannot hold, and no "
                  "link to it can be made in ~/.cache/gpupeak or /tmp",
                  library.string()));
}

namespace {

constexpr const char* kDefaultPattern = "gpupeak.%n.%p.%r.gplog";
constexpr const char* kChildPattern = "%n.%p.%r.gplog";

/// Whether there is room for a log's first chunks.
bool has_room(const std::string& folder) {
  constexpr uint64_t kLeastBytes = 64 << 10;
  struct statvfs disk {};
  return statvfs(folder.c_str(), &disk) != 0 || disk.f_bavail * disk.f_frsize >= kLeastBytes;
}

}  // namespace

std::string absolute_pattern(const std::string& out) {
  const char* variable = getenv("GPUPEAK_OUT");
  std::string pattern = out;
  if (pattern.empty()) pattern = variable != nullptr && *variable != 0 ? variable : kDefaultPattern;
  std::error_code error;
  if (pattern.ends_with('/') || fs::is_directory(pattern, error))
    pattern = fs::path(pattern) / kDefaultPattern;
  const fs::path absolute = fs::absolute(pattern, error);  // fails if our folder was removed
  return error ? pattern : absolute.lexically_normal().string();
}

std::string children_pattern(const std::string& pattern) {
  const fs::path path(pattern);
  const bool is_default = pattern.ends_with(kDefaultPattern);
  if (!is_default && pattern.find('%') != std::string::npos) return pattern;
  const std::string name = is_default ? fmt::format("gpupeak.{}.children", getpid())
                                      : path.stem().string() + ".children";
  fs::path folder = path.parent_path() / name;
  struct stat there {};
  // A folder that somebody else has made, or may write into, is not used.
  if (lstat(folder.c_str(), &there) == 0 && !collector::is_own_folder(folder.string()))
    folder = path.parent_path() / fmt::format("{}.{}", name, collector::unguessable_text());
  return folder / kChildPattern;
}

bool can_be_written(const std::string& pattern, bool quiet) {
  const std::string folder = fs::path(pattern).parent_path().string();
  if (folder.find('%') != std::string::npos) return true;  // not known yet
  const int error = access(folder.c_str(), W_OK | X_OK) != 0 ? errno
                    : has_room(folder)                       ? 0
                                                             : ENOSPC;
  if (error != 0 && !quiet) {
    say("cannot write a log into {}: {}. Nothing will be recorded; choose another place with -o",
        folder.empty() ? "the current folder" : collector::escape(folder), strerror(error));
  }
  return error == 0;
}

void prepare_place(const std::string& pattern, bool quiet) {
  if (pattern.find('%') != std::string::npos) return;
  const OldLog old = remove_old_log(pattern);
  if (quiet) return;
  if (old == OldLog::kInUse) {
    say("{} is the log of a process that still runs; this run's gets another name",
        collector::escape(pattern));
  }
  if (old == OldLog::kOfOthers)
    say("{} is another user's; this run's log gets another name", collector::escape(pattern));
}

std::string where_recorded(const std::string& pattern) {
  const fs::path folder = fs::path(pattern).parent_path();
  const bool is_name = pattern.find('%') == std::string::npos;
  if (is_name || folder.empty() || folder.string().find('%') != std::string::npos)
    return "to " + collector::escape(pattern);
  return "into " + collector::escape(folder.string());
}

namespace {

/// "24GiB" as a number of bytes, which is what the library reads.
std::string size_entry(const std::string& text) {
  const uint64_t bytes = collector::parse_size(text);
  if (bytes == 0) throw collector::UsageError("--limit: no card has 0 bytes");
  return std::to_string(bytes);
}

std::string card_entry(const std::string& name) {
  const collector::Card& card = collector::find_card(name);
  return fmt::format("{}:{}", card.least_bytes, card.name.substr(0, card.name.find(',')));
}

/// "0=A,1=B" with A and B replaced by entry(A) and entry(B). A text without devices is one entry
/// for all devices.
template <typename Entry>
std::string entries(const std::string& text, const char* option, Entry entry) {
  if (text.find('=') == std::string::npos) return entry(text);
  static const std::regex numbered("([0-9]{1,3})=(.+)");
  std::istringstream list(text);
  std::string all;
  for (std::string one; std::getline(list, one, ',');) {
    std::smatch parts;
    if (!std::regex_match(one, parts, numbered) ||
        std::stoul(parts[1]) >= GPUPEAK_LOG_MAX_DEVICES) {
      throw collector::UsageError(
          fmt::format("{}: '{}' is not a GPU's number, '=' and what it is to have: 0=24GiB,1=16GiB",
                      option, collector::escape(one)));
    }
    all += fmt::format("{}{}={}", all.empty() ? "" : ",", parts[1].str(), entry(parts[2].str()));
  }
  return all;
}

}  // namespace

std::string limit_variable(const std::string& limit, const std::string& gpu) {
  if (!limit.empty()) return entries(limit, "--limit", size_entry);
  if (!gpu.empty()) return entries(gpu, "--gpu", card_entry);
  return "";
}

namespace {

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
