// The program that `attach` is to record: whether it can be attached to without harm, where its
// libraries and their functions lie, and whether a thread of it may be made to call them.
#pragma once

#include <elfutils/libdwfl.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gpupeak::tools {

/// Throws UsageError, which says why, if the process cannot be attached to, or if another
/// command attaches to it or leaves it. None other can until this command ends. Changes nothing in
/// the process.
void require_attachable(pid_t pid);

/// Throws UsageError if a thread confines itself by a filter of system calls: the filter may end
/// the program for one of ours. Each thread may have one of its own.
void require_no_filter(pid_t pid);

/// The process's threads, its first thread first.
std::vector<pid_t> threads_of(pid_t pid);
/// The path of the loaded library with this file name; empty: none is loaded.
std::string loaded_library(pid_t pid, const std::string& file_name);

/// The modules of a process and their symbols, as they were when this object was made.
class TargetModules {
 public:
  explicit TargetModules(pid_t pid);
  /// The address of the function `name` in a module whose file name begins with `module`; 0: there
  /// is none.
  uint64_t function(const std::string& module, const std::string& name) const;
  Dwfl* get() const { return dwfl_.get(); }

 private:
  struct End {
    void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
  };
  std::unique_ptr<Dwfl, End> dwfl_;
};

// Whether a stopped thread is at a safe point: a place where it may be made to call into the
// loader, the allocator and the driver. A lock of theirs is held by a thread only while it is
// within their functions. So a thread is safe if its stack is known from end to end, and all of it
// lies in files that define none of these functions; in the C library only within a system call
// that waits, in a function that is known to wait. A place that is not known is not safe.

/// The files of a process in whose code a thread may hold a lock that the calls take.
class SafePoints {
 public:
  explicit SafePoints(Dwfl* modules);
  /// Why the thread, stopped in this system call (-1: in none), is not at a safe point; empty: it
  /// is.
  std::string unsafe_because(pid_t thread, long system_call) const;

 private:
  Dwfl* const modules_;
  std::map<std::string, std::string> called_by_us_;  ///< path; a function in it that the calls take
};

}  // namespace gpupeak::tools
