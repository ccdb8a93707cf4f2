// What a test does with the stand-in for an XLA plugin beside PJRT's own functions: its allocator's
// virtual functions, and its ledger.
#pragma once

#include <cstddef>
#include <cstdint>

struct FakeXlaLedger {
  uint64_t in_use, pool, peak;
};
struct FakeXla {
  void* (*alloc)(size_t size);
  /// nullptr: there was not enough. `retry`: waits for what others free.
  void* (*alloc_with)(size_t size, bool retry);
  void (*free)(void* at);
  void (*clear_statistics)();
  FakeXlaLedger (*ledger)();
  void (*each)(void (*visit)(uint64_t address, uint64_t bytes));
  bool (*waits)();  ///< whether a request waits for memory now
};
extern "C" const FakeXla* fake_xla();

/// PJRT's functions as the client calls them, by their places in its table.
enum FakePjrtSlot : size_t {
  kPjrtDestroyError = 5,
  kPjrtCompile = 25,
  kPjrtDestroyExecutable = 45,
  kPjrtNameOfExecutable = 46,
  kPjrtDestroyProgram = 55,
  kPjrtExecutableOfProgram = 56,
  kPjrtExecute = 60,
};
