// The program that `attach` is to record: whether it can be attached to without harm, where its
// libraries and their functions lie, and its threads, which are made to call them. x86-64 only.
#pragma once

#include <elfutils/libdwfl.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>

#include <chrono>
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

// System calls in which a thread waits, and how each goes on after the thread was stopped in it.
// Some begin anew by themselves; others fail with EINTR although no signal has come, so they are
// told to begin anew. If a call has a time limit, only what is left of it may be waited for again.

using Instant = std::chrono::steady_clock::time_point;

/// Whether it is one of the system calls that wait, and hold nothing meanwhile.
bool is_wait(long system_call);
/// Makes an interrupted call that would fail with EINTR begin anew, for the time that is left of
/// one that began at `began`. Returns whether it has changed the registers.
bool begin_wait_anew(user_regs_struct& registers, Instant began);

/// What was seen of a thread from outside, without stopping it.
struct Look {
  std::string not_now;  ///< why the thread is not to be stopped now; empty: it may be
  Instant at;
  Instant began;      ///< of the wait in which it was, if that has a limit; else as `at`
  std::string waits;  ///< how often it has waited so far
};
Look look_at(pid_t pid, pid_t thread);
/// When the wait began in which a thread was stopped after that look.
Instant wait_began(pid_t thread, const Look& look);
/// Whether what is left of the limit of this call cannot be found out.
bool has_unknown_limit(pid_t pid, const user_regs_struct& registers);

/// Stops a thread and makes it call functions of the program, on a stack that is mapped for the
/// calls. Whatever happens, the thread then goes on where it was, with the same registers and
/// signal mask.
class TracedThread {
 public:
  /// Stops the thread. Throws LogError if that is not allowed, or if the thread does not stop.
  TracedThread(pid_t thread, const Look& look);
  /// Lets the thread continue where it was.
  ~TracedThread();
  TracedThread(const TracedThread&) = delete;
  TracedThread& operator=(const TracedThread&) = delete;

  pid_t id() const { return thread_; }
  uint64_t ip() const { return saved_.rip; }
  const user_regs_struct& registers() const { return saved_; }
  /// The system call in which it was stopped; -1: none.
  long stopped_in() const { return static_cast<long>(saved_.orig_rax); }
  uint64_t thread_pointer() const { return saved_.fs_base; }

  /// Maps memory in the program for a stack, code and arguments. `system_call`: address of a system
  /// call instruction in the program.
  void prepare(uint64_t system_call);
  /// The address of `bytes` new bytes for arguments, for write() and read().
  uint64_t place(size_t bytes);
  void write(uint64_t at, const void* from, size_t bytes) const;
  void read(uint64_t at, void* to, size_t bytes) const;
  std::string read_text(uint64_t at) const;
  std::string place_of(uint64_t address) const;
  /// Calls the function. Throws LogError if it faults, or does not return in time.
  uint64_t call(uint64_t function, const std::vector<uint64_t>& arguments);

 private:
  void set_up(user_regs_struct& registers, const std::vector<uint64_t>& arguments);
  uint64_t system_call(long number, const std::vector<uint64_t>& arguments);
  int wait_for_stop(double seconds);
  int go_on(__ptrace_request how, double seconds);
  bool is_waiting_for_lock();
  void restore();
  void let_go(int signal = 0);

  const pid_t thread_;
  Instant began_;  ///< of the wait in which it was stopped
  user_regs_struct saved_{};
  std::vector<char> saved_extended_;  ///< floating point, vectors
  uint64_t saved_mask_ = 0;
  uint64_t system_call_at_ = 0, memory_ = 0, next_place_ = 0;
  Instant::duration stood_still_{};  ///< of a call, while the program was stopped as a whole
  bool is_stopped_ = false, is_saved_ = false;
};

/// A system call instruction in [begin, end) of the program's memory; 0: none.
uint64_t find_system_call(pid_t pid, uint64_t begin, uint64_t end);

}  // namespace gpupeak::tools
