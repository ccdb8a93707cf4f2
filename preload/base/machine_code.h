// Moves a function's first instructions elsewhere, so that a jump fits in their place. Each
// architecture has a file. HOOK-SAFE.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupeak::preload {

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
}  // namespace gpupeak::preload
