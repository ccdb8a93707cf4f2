// All that depends on the processor: registers, the stack pointer, page sizes, machine code. Each
// architecture has a file, and all of these declare the same functions. Include this file alone.
#pragma once

#if defined(__x86_64__)
#include "base/arch_x86_64.h"
#elif defined(__aarch64__)
#include "base/arch_aarch64.h"
#else
#error "gpupeak is made for x86-64 and aarch64"
#endif
