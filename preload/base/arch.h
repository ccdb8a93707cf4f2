// What only the processor can say or do, a file for each architecture. They declare the same
// things, with the same promises; who needs one of them includes this.
#pragma once

#if defined(__x86_64__)
#include "base/arch_x86_64.h"
#elif defined(__aarch64__)
#include "base/arch_aarch64.h"
#else
#error "gpupeak is made for x86-64 and aarch64"
#endif
