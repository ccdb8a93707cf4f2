// Stops a thread of another program and makes it call functions of that program, on a stack that is
// mapped for the calls. Whatever happens, the thread then goes on where it was, with the same
// registers and signal mask. x86-64 only.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tools/attach/waits.h"

namespace gpupeak::tools {

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
  /// Calls the function. Throws LogError if it faults, or does not return in time.
  uint64_t call(uint64_t function, const std::vector<uint64_t>& arguments);

 private:
  uint64_t system_call(long number, const std::vector<uint64_t>& arguments);
  int wait_for_stop(double seconds);
  bool is_waiting_for_lock();
  void restore();
  void let_go(int signal = 0);

  const pid_t thread_;
  Instant began_;  ///< of the wait in which it was stopped
  user_regs_struct saved_{};
  std::vector<char> saved_extended_;  ///< floating point, vectors
  uint64_t saved_mask_ = 0;
  uint64_t system_call_at_ = 0, memory_ = 0, next_place_ = 0;
  bool is_stopped_ = false, is_saved_ = false;
};

/// A system call instruction in [begin, end) of the program's memory; 0: none.
uint64_t find_system_call(pid_t pid, uint64_t begin, uint64_t end);

}  // namespace gpupeak::tools
