// Makes a function of another library jump to one of ours at its entry. This is for functions that
// are called in ways which no symbol lookup sees: by their own library, by a program that they are
// linked into, or by address. HOOK-SAFE.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"

namespace gpupeak::preload {

// Moves a function's first instructions elsewhere, so that a jump fits in their place. Each
// architecture has a file. HOOK-SAFE.

struct MovedCode {
  size_t moved_bytes = 0;    ///< bytes of the function that were moved
  size_t written_bytes = 0;  ///< bytes at the new place, with the jump to the rest of the function
};

namespace arch {

/// How far from a function its moved instructions may lie.
extern const uintptr_t kCodeReach;
/// What move_code() and write_far_jump() write at most.
constexpr size_t kMostMovedBytes = 192;

/// How many bytes at a function's entry mark it as a target of indirect calls: they stay.
size_t landing_bytes(const uint8_t* code, size_t bytes);

/// Writes to `to` code that does the same as the instructions from `code` on: as many as a near
/// jump replaces, then a jump to the rest. False if one of them is not known, cannot be moved, ends
/// the function, or is the target of a branch of the function, which ends at `end`.
bool move_code(const uint8_t* code, const uint8_t* end, uint8_t* to, MovedCode& moved);

/// Writes a jump to anywhere. It changes no register that an argument may be in. Returns its size.
size_t write_far_jump(uint8_t* to, const void* target);
/// Writes to `bytes` the jump from `at` to `target`. Returns its size; 0: it is too far.
size_t write_near_jump(uint8_t* bytes, const uint8_t* at, const uint8_t* target);

/// Makes stored code visible to processors whose instruction caches do not see stores.
void code_was_written(uint8_t* begin, uint8_t* end);

}  // namespace arch
/// Room for code: a page or more, near enough to a function for a direct jump. It is writable until
/// close() makes it executable.
class CodeRoom {
 public:
  /// Maps room within reach of `function`. False if there is none.
  bool open(const void* function);
  /// Makes what was written executable.
  bool close();
  uint8_t* at() const { return at_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  void take(size_t bytes) { at_ += bytes; }
  bool is_open() const { return at_ != nullptr; }

 private:
  uint8_t *begin_ = nullptr, *at_ = nullptr, *end_ = nullptr;
};

/// A function whose entry can be replaced.
struct FunctionEntry {
  static constexpr size_t kMostBytes = 8;
  uint8_t* at = nullptr;          ///< where the jump is written
  uint8_t jump[kMostBytes] = {};  ///< its bytes
  size_t jump_bytes = 0;
  const void* original = nullptr;  ///< does what the function did, after room.close()
};

/// Writes into `room` the code that the entry needs. `bytes`: of the function. False if its first
/// instructions cannot be moved with certainty: a branch leads among them, or one is not known.
bool prepare_entry(const void* function, size_t bytes, const void* replacement, CodeRoom& room,
                   FunctionEntry& entry);

/// Writes the jump. Call it only while the process has one thread, and this thread does not run the
/// bytes that change. False if the page does not allow it: then nothing has changed.
bool replace_entry(const FunctionEntry& entry);

// The functions that a program's file names, with those that it does not export. They are in its
// symbol table, which `strip` removes. HOOK-SAFE, but slow: it reads the file.

/// Calls `visit(name, address, bytes)` for each function of the file, with ELF addresses. Calls
/// nothing if the file has no such table, or one of hundreds of MiB.
void for_each_file_symbol(
    const char* path, FunctionRef<void(const char* name, uint64_t address, size_t bytes)> visit);

}  // namespace gpupeak::preload
