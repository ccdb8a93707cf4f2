// How libunwind is called. Each architecture has a file.
#pragma once

#if defined(__x86_64__)
#include "stack/libunwind_x86_64.h"
#elif defined(__aarch64__)
#include "stack/libunwind_aarch64.h"
#else
#error "gpupeak is made for x86-64 and aarch64"
#endif
