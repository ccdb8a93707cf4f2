// Marks the functions and variables that nearly every recorded allocation needs, so that they lie
// together in few pages: a program that does much between two allocations pushes most other pages
// out of the processor's tables.
#pragma once

/// Of a function. (malloc and free, in hooks/malloc_entry_*.S, lie there too.) Each begins a line of
/// the cache, wherever other code moves it to: node took 4 % longer where they lay badly.
#define GPUPEAK_HOT __attribute__((hot, aligned(64)))
/// Of a variable that another file defines: it is this library's, so that its address is known and
/// need not be loaded.
#define GPUPEAK_OWN __attribute__((visibility("hidden")))
/// Of a variable that has an initial value.
#define GPUPEAK_HOT_DATA __attribute__((section("gpupeak_hot")))
