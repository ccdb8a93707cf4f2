// Begin and end of the process, as this library sees them. Decides whether the process records,
// opens the log, and closes it at the exit. The decision is kept in base/process_state.h.
//
//   first hook that is called   start()                decides; opens the log, or does not
//   library's constructor       finish_start()         what may not happen inside malloc
//   fork, in the child          start() once more      a log of its own, or none
//   first CUDA call             start_for_cuda()       opens the log of a child that uses the GPU
//   enough in a counted child   open_counted_log()     opens its log, too
//   exit                        end_process()          the last records, then the first screen
//   _exit, abort                end_process_at_once()  the last records
#pragma once

#include <cstdint>
#include <string_view>

#include "base/process_state.h"
#include "base/text.h"
#include "gpupeak/attach.h"
#include "gpupeak/log_format.h"

namespace gpupeak::preload {

/// Whether the process records, or will record once it uses CUDA.
bool may_record();

/// Makes calls of other allocators come to our hooks; done once, when the heap is recorded. True:
/// the program has a malloc of its own, and its calls are seen. In a program that ran before us it
/// is done at each attach; there true means that malloc's calls can be seen, whoever defines
/// malloc. Defined in hooks/allocators.cc, by a fixed name for the same reason as start().
bool take_over_allocators();

/// Called by the library's constructor: does all that may not happen inside an allocator call.
void finish_start();
/// Called by the library's destructor.
void end_process();
/// Called by `gpupeak attach`: opens the log of a process that has run without us. No thread is in
/// a hook of ours, and the functions are not hooked yet.
gpupeak_attach_answer attach_process(std::string_view out_pattern, long& error);
/// Ends the log; from here on all calls pass through. False: the process does not record.
bool detach_process();
/// Whether attach_process() has opened a log before, in this process or in the one that it was
/// forked from: then a thread may still be in a hook.
bool was_attached_before();

/// Call it when the process is about to end without its exit handlers, perhaps from a signal
/// handler: ends the log, and prints nothing.
void end_process_at_once();
/// Call it when the program is about to install a filter of system calls that would end it for a
/// call that recording needs: from here on nothing is recorded, nor in forked children.
void stop_for_filter();
/// Whether stop_for_filter() was called, in this process or the one that it was forked from.
bool is_stopped_for_filter();

// Where this process's log goes, and of which run it is.

/// Whether this process's log goes among those of the children: `run` has started another process.
bool is_filed_as_child();
/// Whether those logs have a folder, which the first child makes. A pattern that is meant for all
/// processes has none.
bool has_folder_of_children();
/// The same number in all processes of a run. `run` gives it to the first process; without `run`,
/// the first one that records makes it up.
uint64_t run_id();
/// GPUPEAK_OUT, or GPUPEAK_CHILDREN_OUT if is_filed_as_child(), as an absolute path. Expands %n
/// name, %p pid, %r rank (if there is none, its dot goes too), %h host, %%.
void expand_out_pattern(Path& path);

// What a log says of its process as it begins.

/// Why a log begins.
enum class Reason { kProgramStart, kFirstCudaCall, kCountedEnough, kAttached };

/// `forked`: its parent had been recorded, or could have been.
gpupeak_file_header describe_process(Reason reason, bool forked);
/// Defines the arguments, the folder and the machine.
void define_facts();

// Prints the lines at the end of a run without `gpupeak run`.
//
// in    the log, closed; the counters page
// out   on standard error: the first screen, by `gpupeak report --short LOG`; if that command
//       cannot be run, the peaks that were counted

/// Runs the `gpupeak` command of this library's own installation, and no other. Prints nothing with
/// GPUPEAK_SUMMARY=off or GPUPEAK_QUIET=1.
void print_exit_lines();
/// From here on the lines are the counters alone: a filter of system calls forbids the command.
void leave_out_command();

}  // namespace gpupeak::preload
