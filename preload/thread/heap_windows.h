// Begins and ends the recording of the heap while the program runs. `gpupeak start` and `stop` ask
// for it from outside, by a word in the log's counters page. A window is the time from such a begin
// to its end. docs/design.md, "Dormant". HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "base/process_state.h"
#include "thread/thread_slot.h"

namespace gpupeak::preload {

/// Call it as the log opens. The process listens to requests only if the heap is only counted.
void begin_listening(ProcessPage& process);
/// The first window, which the process itself begins; nothing happens if it does not listen.
/// `pending_bytes`: of blocks that are counted already and will be recorded.
void begin_window(ProcessPage& process, uint32_t mode, size_t pending_bytes);
/// Begins a window of `mode`, or ends the open one. Called by a thread of this process that is in
/// no hook, and that has opened a HookScope. open_window() returns false if no window began: one is
/// open already, the log cannot grow now, or there is no memory for the marks.
bool open_window(ProcessPage& process, uint32_t mode);
void close_window(ProcessPage& process);
/// Answers the request in the counters page, if there is a new one.
void answer_in_scope(ProcessPage& process);
inline void look_at_request(ProcessPage& process) {
  if (is_window_asked_for(process)) answer_in_scope(process);
}
/// Call it before a thread's heap event in a window: the thread's stream then says how its blocks
/// are chosen.
void enter_window(ProcessPage& process, ThreadSlot& slot);

/// These two keep a slot's sums of blocks that the log has and of blocks that it does not have. For
/// logs that may have windows.
inline void note_logged(ThreadSlot& slot, size_t usable_bytes) {
  slot.logged_bytes += static_cast<int64_t>(usable_bytes);
}
inline void note_freed(const ProcessPage& process, ThreadSlot& slot, bool was_logged,
                       size_t usable_bytes) {
  if (was_logged) {
    slot.logged_bytes -= static_cast<int64_t>(usable_bytes);
  } else if (process.window != 0) {
    slot.freed_unlogged += usable_bytes;
    ++slot.frees_unlogged;
  }
}

}  // namespace gpupeak::preload
