// The process's begin and end, as this library sees them: it decides whether the process records,
// opens the log, and closes the books at exit. What it decided: base/process_state.h.
#pragma once

#include "base/process_state.h"

namespace gpupeak::preload {

/// Whether it records, or will once it uses CUDA.
bool may_record();

/// Has calls of other allocators come to hooks, once, when the heap is recorded. True: the program
/// has a malloc of its own, and its calls are seen. Defined in hooks/allocators.cc, by a fixed name
/// for the reason that start() has.
bool take_over_allocators();

/// From the library's constructor: everything that may not happen inside an allocator call.
void finish_start();
/// From the library's destructor.
void end_process();
/// The process is about to leave past its exit handlers, perhaps from a signal handler: the log
/// gets its end, and nothing is said.
void end_process_at_once();
/// The program is about to put a filter of system calls upon itself which ends it for one that
/// recording takes: nothing is recorded from here on, nor in what it forks.
void stop_for_filter();
/// Whether it has.
bool is_stopped_for_filter();

}  // namespace gpupeak::preload
