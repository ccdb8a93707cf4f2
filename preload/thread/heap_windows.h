// The heap's recording while the program runs: it begins and ends when somebody asks for it from
// outside, by a word in the log's counters page (`gpupeak start` and `stop`). What lies between is a
// window. docs/design.md, "Dormant". HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "base/process_state.h"
#include "thread/thread_slot.h"

namespace gpupeak::preload {

/// As the log opens: whether it may be asked, which is so where the heap is only counted.
void begin_listening(ProcessPage& process);
/// The first window, which the process itself begins. `pending_bytes`: of blocks that are counted
/// already and will be recorded. Only where it listens.
void begin_window(ProcessPage& process, uint32_t mode, size_t pending_bytes);
/// From outside, by a thread of the process that is in no hook: a window of that mode begins, or the
/// open one ends. In a HookScope. False: no memory for the marks.
bool open_window(ProcessPage& process, uint32_t mode);
void close_window(ProcessPage& process);
/// Does what is asked for, if anything is.
void answer_in_scope(ProcessPage& process);
inline void look_at_request(ProcessPage& process) {
  if (is_window_asked_for(process)) answer_in_scope(process);
}
/// Before a thread's heap event in a window: its stream says how its blocks were chosen.
void enter_window(ProcessPage& process, ThreadSlot& slot);

/// What a slot knows of blocks by whether the log has them. In a log that may have windows.
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
