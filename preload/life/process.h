// Begin and end of the process, as this library sees them: it decides whether the process records,
// opens the log, and closes it at the exit. What it has decided stands in base/process_state.h.
//
//   first hook that is called   start()                decides; opens the log, or does not
//   library's constructor       finish_start()         what may not happen inside malloc
//   fork, in the child          start() once more      a log of its own, or none
//   first CUDA call             start_for_cuda()       opens the log of a child that uses the GPU
//   enough in a counted child   open_counted_log()     opens its log, too
//   exit                        end_process()          the last records, then the first screen
//   _exit, abort                end_process_at_once()  the last records
#pragma once

#include <string_view>

#include "base/process_state.h"

namespace gpupeak::preload {

/// Whether it records, or will once it uses CUDA.
bool may_record();

/// Has calls of other allocators come to hooks, once, when the heap is recorded. True: the program
/// has a malloc of its own, and its calls are seen. In a program that ran before us, at each attach:
/// whether its malloc's calls can be seen, whosever it is. Defined in hooks/allocators.cc, by a
/// fixed name for the reason that start() has.
bool take_over_allocators();

/// From the library's constructor: everything that may not happen inside an allocator call.
void finish_start();
/// From the library's destructor.
void end_process();
/// By `gpupeak attach`: opens the log of a process that has run without us, inside which no thread
/// is in a hook of ours. The functions are not hooked yet.
enum class AttachResult { kDone, kPreloaded, kAlready, kUnfit, kOwnMalloc, kNoLog, kBusy };
AttachResult attach_process(std::string_view out_pattern, long& error);
/// Ends the log; from here on all passes through. False: it does not record.
bool detach_process();
/// Whether attach_process() has opened a log before, in this process or the one that it was forked
/// from: a thread may still be in a hook.
bool was_attached_before();

/// The process is about to leave past its exit handlers, perhaps from a signal handler: the log
/// gets its end, and nothing is said.
void end_process_at_once();
/// The program is about to put a filter of system calls upon itself which ends it for one that
/// recording takes: nothing is recorded from here on, nor in what it forks.
void stop_for_filter();
/// Whether it has.
bool is_stopped_for_filter();

}  // namespace gpupeak::preload
