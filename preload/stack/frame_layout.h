// Where an architecture keeps what leads from a frame to its caller. Each architecture has a file,
// and all of them declare the same things.
#pragma once

#if defined(__x86_64__)
#include "stack/frame_layout_x86_64.h"
#elif defined(__aarch64__)
#include "stack/frame_layout_aarch64.h"
#else
#error "gpupeak is made for x86-64 and aarch64"
#endif
