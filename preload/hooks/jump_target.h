// Where a longjmp leads, a file for each architecture.
#pragma once

#if defined(__x86_64__)
#include "hooks/jump_target_x86_64.h"
#elif defined(__aarch64__)
#include "hooks/jump_target_aarch64.h"
#else
#error "gpupeak is made for x86-64 and aarch64"
#endif
