// What the code that a signal has stopped was doing, a file for each architecture.
#pragma once

#if defined(__x86_64__)
#include "log/fault_x86_64.h"
#elif defined(__aarch64__)
#include "log/fault_aarch64.h"
#else
#error "gpupeak is made for x86-64 and aarch64"
#endif
