// How the stack is walked: libunwind if it can be loaded, else libgcc's unwinder, else only the
// caller.
#pragma once

#include <ucontext.h>

#include <cstdint>

#include "stack/libunwind.h"

namespace gpupeak::preload {

/// What single steps need, some KiB: signal handlers' stacks may be small.
struct UnwindScratch {
  uintptr_t cursor[kUnwindCursorWords];
  ucontext_t context;
};

/// Loads an unwinder. Once, from the library's constructor or at a process's first CUDA call: it
/// calls dlopen, which calls malloc, so never from within an allocator hook, nor before main where
/// the program has its own. Sets the quality bit if libunwind is missing.
void load_unwinder();

/// Say that no unwinder is to be loaded for now: a process that is only counted needs none, and
/// loading one takes as long as all else at the start. Until load_unwinder() a call site that
/// unwind rules do not describe is one frame deep, and the quality bit says so.
void do_without_unwinder();

/// Call it in a forked child, which then does without an unwinder whose locks another thread of the
/// parent may have had, or which would ask a loader that is held for good.
void leave_unwinder_in_child();

/// Call it when code was unloaded: what the unwinder remembers of it may not hold for code that
/// comes to its place. libunwind's fast way cannot be told so, and is not used any more.
void forget_unwound_code();

/// Return addresses of the calling thread, innermost first, at most `capacity`. 0: no unwinder yet.
int unwind(UnwindScratch& scratch, void** frames, int capacity);

}  // namespace gpupeak::preload
