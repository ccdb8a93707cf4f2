#include "tools/run/program.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

#include "collector/files/regular_file.h"
#include "collector/rules/cards.h"
#include "collector/rules/rule_book.h"
#include "collector/summary/gate.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
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

constexpr const char* kDefaultPattern = "gpupeak.%n.%p.%r.gplog";
constexpr const char* kChildPattern = "%n.%p.%r.gplog";

/// Whether there is room for a log's first chunks.
bool has_room(const std::string& folder) {
  constexpr uint64_t kLeastBytes = 64 << 10;
  struct statvfs disk {};
  return statvfs(folder.c_str(), &disk) != 0 || disk.f_bavail * disk.f_frsize >= kLeastBytes;
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
          "{}: '{}' is not a GPU's number, '=' and what it is to have: 0=24GiB,1=16GiB", option,
          collector::escape(one));
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

/// Puts a name in front of those that the variable has.
void set_in_front(const char* variable, const std::string& name) {
  const char* others = getenv(variable);
  const bool has_others = others != nullptr && *others != 0;
  setenv(variable, (has_others ? name + ":" + others : name).c_str(), 1);
}

void set_unless_empty(const std::string& name, const std::string& value) {
  if (!value.empty()) setenv(name.c_str(), value.c_str(), 1);
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

/// The pointers to this process's variables, then nullptr.
std::vector<char*> variables_now() {
  char** end = environ;
  while (*end != nullptr) ++end;
  return {environ, end + 1};
}

/// What all processes have written: by the first word of a line, the rest of each.
/// preload/python defines the words.
using Told = std::map<std::string, std::vector<std::string>>;

Told read_told(const fs::path& path) {
  Told told;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what, rest;
    words >> what;
    std::getline(words >> std::ws, rest);
    told[what].push_back(rest);
  }
  return told;
}

std::string seen_text(Told& told) {
  const size_t processes = told["torch"].size();
  std::string text =
      fmt::format("  modules of PyTorch {} by name", collector::escape(told["torch"].back()));
  if (processes > 1) text += fmt::format(" in {} processes", processes);
  uint64_t ended = 0, most_modules = 0, all_calls = 0;
  int64_t all_ns = 0;
  for (const std::string& cost : told["cost"]) {
    uint64_t modules = 0, calls = 0;
    int64_t time_ns = 0;
    if (!(std::istringstream(cost) >> modules >> calls >> time_ns)) continue;
    ++ended;
    most_modules = std::max(most_modules, modules);
    all_calls += calls;
    all_ns += time_ns;
  }
  if (ended > 0) {
    text += fmt::format(": {} {}, {} calls of hooks, which took {}", most_modules,
                        most_modules == 1 ? "module" : "modules", all_calls,
                        collector::duration(all_ns));
  }
  if (ended < processes)
    text += "; what hooks took is not known of a process that did not end by itself";
  return text + "\n";
}

}  // namespace

[[noreturn]] void become(const std::vector<char*>& words, char** environment, int failure) {
  execvpe(words[0], words.data(), environment);
  const int error = errno;
  if (failure < 0)
    say("cannot run {}: {}", collector::escape(words[0]), strerror(error));
  else if (write(failure, &error, sizeof error) != sizeof error)
    _exit(kCannotExec);
  _exit(error == ENOENT ? kNotFound : kCannotExec);
}

ProgramEnvironment::ProgramEnvironment(const RunOptions& options, const fs::path& library,
                                       const std::string& pattern, const std::string& children,
                                       uint64_t id, const std::function<void()>& set_more) {
  const struct Own {
    char** variables = environ;
    ~Own() { environ = variables; }
  } own;
  std::vector<char*> copy = variables_now();
  environ = copy.data();
  if (!has_other_loader(program_file(options.command[0])))
    set_in_front("LD_PRELOAD", library.string());
  setenv("GPUPEAK_OUT", pattern.c_str(), 1);
  setenv("GPUPEAK_CHILDREN_OUT", children.c_str(), 1);
  setenv("GPUPEAK_SUMMARY", "off", 1);
  setenv("GPUPEAK_RUN_ID", fmt::format("{:016x}", id).c_str(), 1);
  putenv(strcpy(run_pid_, "GPUPEAK_RUN_PID="));
  if (options.audit) {
    set_in_front("LD_AUDIT", (library.parent_path() / "libgpupeak_audit.so").string());
    make_up_for_audit();
  }
  for (const auto& [name, value] : options.variables) set_unless_empty(name, value);
  set_unless_empty("GPUPEAK_LIMIT", limit_variable(options.limit, options.gpu));
  if (!options.arena_rules.empty())
    setenv("GPUPEAK_POOL_RULES", fs::absolute(options.arena_rules).c_str(), 1);
  if (options.quiet) setenv("GPUPEAK_QUIET", "1", 1);
  // Every event gets a time, so that phases from outside begin between the right events.
  if (!options.phases_on_output.empty()) setenv("GPUPEAK_STAMP_ALL", "1", 1);
  set_more();
  variables_ = variables_now();
}

char** ProgramEnvironment::of(int pid) {
  *fmt::format_to(strchr(run_pid_, '=') + 1, "{}", pid) = 0;
  return variables_.data();
}

PythonHooks::PythonHooks(const fs::path& library, const RunOptions& options)
    : options_(options), folder_(library.parent_path() / "python") {
  if (const fs::path file = folder_ / "sitecustomize.py"; access(file.c_str(), R_OK) != 0)
    throw std::runtime_error(fmt::format("{} cannot be read", collector::escape(file.string())));
  for (const std::string& text : options.calls) {
    const collector::Rule rule = collector::parse_phase_option(text);
    if (!rule.by_call)
      throw collector::UsageError(
          "run --phase makes phases of calls: '{0}#'; gpupeak phases --phase '{0}' LOG does "
          "without",
          collector::escape(text));
    const auto glob = [](const auto& globs) { return globs.empty() ? "*" : globs.front(); };
    rules_ += fmt::format("{}{}\t{}\t{}", rules_.empty() ? "" : "\n", rule.name,
                          glob(rule.functions), glob(rule.modules));
  }
  std::string name = (fs::temp_directory_path() / "gpupeak-python-XXXXXX").string();
  const int file = mkstemp(name.data());
  if (file < 0)
    throw std::runtime_error(
        fmt::format("cannot make {}: {}", collector::escape(name), strerror(errno)));
  close(file);
  told_ = name;
}

PythonHooks::~PythonHooks() {
  std::error_code error;
  fs::remove(told_, error);
}

void PythonHooks::set_environment() const {
  set_in_front("PYTHONPATH", folder_.string());
  setenv("GPUPEAK_PYTHON_TOLD", told_.c_str(), 1);
  setenv("GPUPEAK_PYTHON_CALLS", rules_.c_str(), 1);
  setenv("GPUPEAK_TORCH_MODULES", options_.torch_modules ? "1" : "", 1);
}

std::string PythonHooks::text() const {
  Told told = read_told(told_);
  if (told["python"].empty())
    return "  no phases of Python's calls or modules, no Python began that reads PYTHONPATH "
           "(python3 -I, -E and -S, and frozen programs do not)\n";
  std::string text;
  for (size_t i = 0; i < options_.calls.size(); ++i) {
    if (told[fmt::format("calls{}", i)].empty() && told["old"].empty())
      text += fmt::format("  --phase '{}': no such Python function was called\n",
                          collector::escape(options_.calls[i]));
  }
  const std::string failure = told["failed"].empty() ? "" : told["failed"].front();
  if (!told["torch"].empty()) {
    text += seen_text(told);
  } else if (options_.torch_modules && failure.empty()) {
    text += "  --torch-modules: no modules by name, PyTorch was not imported\n";
  }
  if (!failure.empty()) {
    text += fmt::format("  no phases of Python's calls or modules from some point on: {}\n",
                        collector::escape(failure));
  }
  for (const std::string& line : std::set(told["say"].begin(), told["say"].end()))
    text += fmt::format("  {}\n", collector::escape(line));
  return text;
}

}  // namespace gpupeak::tools
