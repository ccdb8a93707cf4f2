// What a test does with the stand-in for ONNX Runtime's arenas: calls of their virtual functions,
// and their own ledger.
#pragma once

#include <cstddef>
#include <cstdint>

struct FakeOrtLedger {
  uint64_t in_use, reserved,
      peak;  ///< reserved: of the heap, which is more than the statistics say
};
struct FakeOrt {
  void* (*make)(bool streamed, int64_t limit);
  void (*destroy)(void* arena);
  void* (*alloc)(void* arena, size_t size);
  void* (*alloc_on_stream)(void* arena, size_t size);
  void* (*reserve)(void* arena, size_t size);
  void (*free)(void* arena, void* at);
  FakeOrtLedger (*ledger)(void* arena);
  void (*each)(void* arena, void (*visit)(uint64_t address, uint64_t bytes));
  void (*before_lock)(void (*function)());  ///< called in each Alloc before it takes its lock
  bool streams_are_virtual;                 ///< else that arena hands out by an own function
  bool (*odd)();  ///< of the odd library alone: whether each call arrived whole
};
extern "C" const FakeOrt* fake_ort();
