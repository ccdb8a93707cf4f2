// How the process that `run` forks becomes the program that is to be recorded: by which name it
// loads the library, where its logs go, and which cards look smaller to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace gpupeak::tools {

// A path of the library that LD_PRELOAD can hold.

/// Spaces and colons separate names in LD_PRELOAD and cannot be escaped. If the library's folder
/// has one in its path, the result leads through a link to that folder. The link is in a folder of
/// this user that nobody else can write to, and it stays, for processes that outlive the program.
/// Throws std::runtime_error if there is no place for such a link.
std::filesystem::path preloadable_name(const std::filesystem::path& library);

// Where a run's logs go, and whether they can be written there.

/// `out`: name or pattern, as -o has it; empty: GPUPEAK_OUT, else the default.
std::string absolute_pattern(const std::string& out);
/// The pattern of child processes' logs. A pattern that the user gave is for all processes. If
/// there is only a name, or the default, all child processes' logs go into one folder of their own.
std::string children_pattern(const std::string& pattern);
/// Whether logs can be written there; if not, says why, unless `quiet`. The library would say so,
/// too.
bool can_be_written(const std::string& pattern, bool quiet);
/// To be called before the program starts. Removes an earlier log of this name: if this run records
/// nothing, the old log must not be taken for its own.
void prepare_place(const std::string& pattern, bool quiet);
/// "to FILE", or "into FOLDER" for a pattern: what is known of the log's name before the program
/// runs.
std::string where_recorded(const std::string& pattern);

// `gpupeak run --limit` and `--gpu`: cards that are to look smaller than they are.

/// The value for GPUPEAK_LIMIT. `limit`: "24GiB" for each GPU, or "0=24GiB,1=16GiB". `gpu`: names
/// of cards, written in the same way; a card's limit is the least capacity that was seen of such a
/// card. At most one of the two is given; if both are empty, so is the result. Throws UsageError.
std::string limit_variable(const std::string& limit, const std::string& gpu);

struct RunOptions {
  std::vector<std::string> command;
  std::string out;  ///< name or pattern of the log; empty: GPUPEAK_OUT, else the default
  /// What the library reads, by variable; empty: as the environment has it.
  std::map<std::string, std::string> variables;
  std::string compress = "auto";              ///< when logs are compressed
  std::string names = "auto";                 ///< whose are kept
  std::vector<std::string> phases_on_output;  ///< as output_phases.h; empty: output is left alone
  std::string limit, gpu;                     ///< as limit_variable() takes them
  std::string arena_rules;         ///< a file with [[pool]]; empty: as GPUPEAK_POOL_RULES
  std::vector<std::string> calls;  ///< phases by call of Python functions, as rules have them
  bool torch_modules = false;      ///< make phases of PyTorch's modules
  bool audit = false;              ///< reach clients that bypass a preloaded library
  bool quiet = false;
};

/// Becomes the program, with this environment. If that fails, writes errno to the descriptor
/// `failure`; -1: says why. Allocates nothing if `failure` is a descriptor.
[[noreturn]] void become(const std::vector<char*>& words, char** environment, int failure);

/// The environment of a program that is to be recorded. It is made before there is a process for
/// the program, which then can begin in our memory: a copy of that takes half a millisecond.
class ProgramEnvironment {
 public:
  /// `id`: of the run. `set_more`: sets further variables by setenv().
  ProgramEnvironment(const RunOptions& options, const std::filesystem::path& library,
                     const std::string& pattern, const std::string& children, uint64_t id,
                     const std::function<void()>& set_more);
  /// For execvpe(), of the process `pid`. Async-signal-safe.
  char** of(int pid);

 private:
  std::vector<char*> variables_;
  char run_pid_[32] = {};  // "GPUPEAK_RUN_PID=…"
};

// `gpupeak run --torch-modules` and `--phase`: the run's Python processes load what is in
// preload/python and gpupeak_calls.py.

/// A file into which the Python processes of a run write what they saw. It is removed with this
/// object.
class PythonHooks {
 public:
  /// `library`: as LD_PRELOAD names it. Throws std::runtime_error if the Python files are not
  /// beside the library or no file can be made, and UsageError for a rule that is none.
  PythonHooks(const std::filesystem::path& library, const RunOptions& options);
  ~PythonHooks();
  PythonHooks(const PythonHooks&) = delete;
  PythonHooks& operator=(const PythonHooks&) = delete;

  /// Sets variables that the program is to get.
  void set_environment() const;
  /// Lines for the first screen, after the program's end: what was seen and what it took, or why
  /// modules or calls have no phases.
  std::string text() const;

 private:
  const RunOptions& options_;
  std::filesystem::path folder_, told_;
  std::string rules_;  ///< of calls: a line each, a name and globs of its function and its file
};

}  // namespace gpupeak::tools
