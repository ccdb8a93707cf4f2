// What the thunks of arena_thunks_*.S save, a file for each architecture.
#pragma once

#if defined(__x86_64__)
#include "hooks/arena_call_x86_64.h"
#elif defined(__aarch64__)
#include "hooks/arena_call_aarch64.h"
#else
#error "gpupeak is made for x86-64 and aarch64"
#endif
