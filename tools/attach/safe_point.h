// Whether a stopped thread of another program is at a safe point: a place where it may be made to
// call into the loader, the allocator and the driver. A lock of theirs is held by a thread only
// while it is within their functions. So a thread is safe if its stack is known from end to end,
// and all of it lies in files that define none of these functions; in the C library only within a
// system call that waits, in a function that is known to wait. A place that is not known is not
// safe.
#pragma once

#include <elfutils/libdwfl.h>
#include <sys/types.h>

#include <map>
#include <string>

namespace gpupeak::tools {

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
