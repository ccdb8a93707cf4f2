// Explores what C++'s memory model lets threads see, on whatever processor the test runs. A
// scenario and the code that it calls are compiled with -fsanitize=thread, but linked with
// explorer.cc in place of the sanitizer's runtime: each atomic operation and each access of other
// memory is a call. Threads are fibers of one thread; which one goes on, which value a load sees
// and when a relaxed store is seen is drawn anew in each execution.
//
// Explored: a load sees any store that is not older than what its thread knows; release, acquire,
// release sequences, fences, sequential consistency; relaxed stores that others see later than
// later stores, or earlier than loads before them (load buffering), but for stores of addresses. A
// race is an access of other memory that nothing orders. Not explored: a weak compare-exchange that
// fails for no reason.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weak {

struct Scenario {
  std::vector<std::function<void()>> threads;
  std::function<void()> setup = [] {};  ///< before each execution, alone
  std::function<void()> check = [] {};  ///< after each whole one, alone
  /// Another thread may go on at each access, not at atomic ones alone: for fork().
  bool each_access = false;
};

enum class Kind { kLoad, kStore, kChange, kFence };

/// A place in the code that asks for an order.
struct Site {
  uintptr_t at;
  int order;  ///< as __ATOMIC_* has it
  Kind kind;
  bool operator==(const Site&) const = default;
};

struct Found {
  std::string failure;                    ///< empty: every execution held
  uint64_t executions = 0, promises = 0;  ///< in how many a store was seen that was made later
  std::vector<Site> sites;                ///< each that was reached
};

/// Runs up to so many executions, until one fails. The sites `weakened` have the order `order`.
Found explore(const Scenario& scenario, uint64_t executions,
              const std::vector<uintptr_t>& weakened = {}, int order = 0);

/// Explores scenarios that must hold, and then with each line that asks for an order made weaker by
/// one step. Returns what failed, or each line whose order no scenario needs; empty: none. `files`:
/// how the names of files begin whose lines are meant; empty: all.
std::string needs_each_order(const std::vector<Scenario>& scenarios, uint64_t executions,
                             const std::vector<std::string>& files = {});

// For scenarios.
void require(bool holds, const char* what);
/// Accesses there are the simulation's own.
void ignore(const void* at, size_t bytes);
/// The same of memory that each thread has for itself, such as a thread_local variable.
void per_thread(void* at, size_t bytes);
/// The kernel has mapped new memory: as if this thread had written all of it.
void mapped(const void* at, size_t bytes);
/// The calling thread goes on alone, as a forked child: what the others have stored by then is
/// there, each one's stores up to some point of its own order.
void fork();

// What the kernel does, for simulated/base/syscalls.h.
long futex_wait(const void* word, uint32_t value);  ///< no time passes: somebody must wake it
void futex_wake(const void* word, uint32_t most);
void fence_all_threads();
int thread();  ///< which one runs: 1 and up; 0: none
/// Whether a thread has ended. Whom the kernel tells so, also sees all that it did.
bool has_ended(int thread);
/// A clock that all threads have in common. Read behind the loads before it, and before stores
/// behind it are seen, as arch::counter() is.
uint64_t clock();

}  // namespace weak
