// The command's child processes: how they begin and end, and where the files lie that they run.
//
// A program that ignores SIGCHLD passes that setting on to whatever it starts. Where SIGCHLD is
// ignored, the kernel forgets at once how a child ended.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/files/regular_file.h"

namespace gpupeak::tools {

/// Sets SIGCHLD to its default, so that the kernel keeps how a child ended until we wait for it. To
/// be called before the first child begins.
void keep_child_ends();
/// Sets SIGCHLD as this command found it. To be called in a child, before another program begins
/// there.
void restore_child_signal();

/// The exit code that tells of a status as waitpid() gives it: the program's, or 128 + the signal.
int exit_code(int status);
/// Waits for a child's end. Returns its status as waitpid() gives it; none: the end is not known.
std::optional<int> wait_for_child(pid_t child, rusage* usage = nullptr);
/// Runs a program, found as a shell finds it, with this output; -1: ours. If it has output of its
/// own, it has no input. Returns its exit code as exit_code() tells it; kNotFound, kCannotExec: it
/// did not begin; kOwnFailure: its end is not known. `running`: its process id meanwhile, for a
/// handler of signals.
int run_program(const std::vector<std::string>& words, int output = -1, int errors = -1,
                volatile sig_atomic_t* running = nullptr);

/// As process 1 of a container, or as a subreaper, this process becomes the parent of orphans, and
/// must wait for them. Then the command goes on in a child, where this function returns. The parent
/// waits for all children, hands signals on to that child, and ends with its exit code. In any
/// other process the function just returns.
void leave_orphans_to_parent();

// A command line as exec and posix_spawn take it.

/// Pointers to the words, then nullptr. The words must outlive the result. exec does not change
/// them.
inline std::vector<char*> exec_arguments(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

/// Blocks all signals but faults in this thread, as long as it lives.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { restore(); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  void restore() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// Sets the handler of the signals with which a terminal, or the command's caller, ends the
/// command.
inline void set_end_signals(void (*handler)(int)) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, handler);
}

/// A process that the command forks for work of its own which may die, of damaged symbols or of too
/// little memory. It ends when its parent ends, since nobody waits for its work any more.
class Helper {
 public:
  /// The work, with a pipe from the parent and one to it. Returns the exit code; what it throws
  /// makes that 1.
  using Work = std::function<int(int from_parent, int to_parent)>;
  using Take = std::function<void(std::string_view bytes)>;
  using Clock = std::chrono::steady_clock;

  Helper() = default;  ///< none
  explicit Helper(const Work& work, void (*on_end_signals)(int) = SIG_DFL);
  Helper(Helper&& other) noexcept { *this = std::move(other); }
  Helper& operator=(Helper&& other) noexcept;
  /// Kills it. Does not wait: to free its memory may take long.
  ~Helper();

  /// False: there is none, or it has ended.
  bool is_there() const { return process_ > 0; }
  /// Sends a text, which text_from() gives there. False: nobody reads it any more.
  bool tell(const std::string& text) const;
  /// Passes on to `take` what it writes, until it ends; no longer than `until`, nor if `stop`
  /// becomes true. Returns its status as waitpid() gives it; none: it has not ended, or its end is
  /// not known.
  std::optional<int> wait(Clock::time_point until, const Take& take,
                          const volatile sig_atomic_t& stop = kNever);
  /// Kills it and waits for its end.
  void end();
  /// Whether somebody else has killed it, such as the kernel for want of memory.
  bool was_killed();

 private:
  static inline const volatile sig_atomic_t kNever = 0;

  pid_t process_ = -1;
  collector::Descriptor to_, from_;
};

/// In a helper: what its parent tells it; empty: it tells nothing any more.
std::string text_from(int pipe);

/// To be called in a helper: the kernel ends this process first if memory runs out.
inline void be_spared_first() {
  std::ofstream("/proc/self/oom_score_adj") << 1000;
}

// Where this command's file lies, and the files that it starts or loads.

/// This program's file, also where there is no /proc.
std::filesystem::path own_path();
/// The library that records, in the place of a build folder or an installation; empty: not found.
std::filesystem::path preload_library();
/// The program that `serve` becomes; empty: it is not in this build.
std::filesystem::path server_program();

// Tells a signal that was sent to this process alone from one that its whole process group got (a
// terminal, `kill 0`, `kill -- -PGID`), or every process of a job or control group. siginfo_t does
// not say. So a second process of our group, the witness, blocks all signals, and what has come to
// both was sent to both.

struct alignas(16) HelperStack {
  char bytes[16 << 10];
};
/// Starts a child that has our memory and blocks all signals; it may make system calls alone.
pid_t start_helper(int (*run)(void*), void* argument, HelperStack& stack);

/// Starts the witness, a child of ours. If there can be none, no signal was sent to others.
void start_witness();
void end_witness();
void wait_for_witness();  // its end takes a tenth of a millisecond

/// Whether the witness, too, got the signal that this process has just got. `signal` must be
/// blocked in all threads of ours, as in a handler that blocks all. To be asked for each signal
/// that comes: the witness keeps what nobody has asked for. Async-signal-safe.
///
/// The same signal to the group and to us alone at the same instant cannot be told apart, and is
/// taken for one to the group; so is one that the kernel sends to each process in turn for longer
/// than this waits (2 ms) taken for one to us alone.
bool has_witness_got(int signal);

}  // namespace gpupeak::tools
