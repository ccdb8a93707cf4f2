// What the code was doing that a signal has stopped. Each architecture has a file.
#pragma once

#if defined(__x86_64__)
#include "log/fault_x86_64.h"
#elif defined(__aarch64__)
#include "log/fault_aarch64.h"
#else
#error "gpupeak is made for x86-64 and aarch64"
#endif
