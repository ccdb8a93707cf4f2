// Runs instrumented code (-fsanitize=thread) as the C++ memory model lets it run, not as this
// processor does: an atomic load may give any earlier value that nothing forbids.
//
// It stands in for the thread sanitizer's run-time library. Of each atomic object it keeps the last
// stores, each with what its thread had seen (a clock of all threads). A load takes one of those
// that may be seen: not one that a store hides which happened before the load, and none older than
// what the thread, or one that it has heard of, has read there. Acquire and release, fences and
// release sequences move clocks as the standard says. A plain access that another thread's access
// neither happens before nor after is a race.
//
// Not explored: loads of values that are stored later (load buffering), stores that take a place
// before the last one in an object's order, and a read-modify-write or a sequentially consistent
// load that sees an older value. So what it finds is wrong, and what it does not find may be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weak_memory {

/// One exploration. Everything before it happens before the threads, which end before it does.
/// `seed`: picks the values. `weakened`: the place in the code (of sites()) whose order counts as
/// relaxed; 0: none.
void begin(unsigned seed, uintptr_t weakened = 0);
/// Called first by each thread, and last.
void enter_thread();
void leave_thread();
/// What was found; empty: nothing. The accesses' addresses are in it.
std::vector<std::string> end();

/// The places in the code that have spent an order stronger than relaxed so far: the addresses
/// behind the calls.
std::vector<uintptr_t> sites();
/// How many loads gave an older value than the last one, in all.
uint64_t stale_loads();

}  // namespace weak_memory
