// What every exported hook begins with. A hook is found in place of a function of the driver or of
// the C library, calls that function, and tells calls/ or track/ what it did.
//
// in    the program's call: malloc(100)
// out   the real function's result, errno and output; below it an event, if this process records
//
//   malloc(100)                             hooks/malloc.cc
//     └ the real malloc(100) → 0x5500a2b0
//     └ heap_allocated(0x5500a2b0, 100, …)  track/heap.h: one record in the thread's chunk
//
// Hooks are in cuda_table.def (the driver), malloc.cc, mmap.cc and adapters.cc (frameworks). All
// exported names are in exports.map.
#pragma once

#include "stack/stack.h"

/// A function that the library exports; its name must be in exports.map.
#define GPUPEAK_EXPORT extern "C" __attribute__((visibility("default")))
