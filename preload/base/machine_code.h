// A function's first instructions, moved elsewhere so that a jump fits in their place; a file an
// architecture. HOOK-SAFE.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupeak::preload {

struct MovedCode {
  size_t moved_bytes = 0;    ///< of the function
  size_t written_bytes = 0;  ///< at the new place, with a jump to the rest of the function
};

namespace arch {

/// How far from a function its moved instructions may lie.
extern const uintptr_t kCodeReach;
/// What move_code() and write_far_jump() write at most.
constexpr size_t kMostMovedBytes = 192;

/// Bytes at a function's entry that mark it as a place where indirect calls may land: they stay.
size_t landing_bytes(const uint8_t* code, size_t bytes);

/// Writes to `to` what the instructions from `code` on do, as many as a near jump replaces, and a
/// jump to those behind them. False: one of them is not known, cannot be moved, ends the function,
/// or is where a branch of the function, which ends at `end`, leads to.
bool move_code(const uint8_t* code, const uint8_t* end, uint8_t* to, MovedCode& moved);

/// A jump to anywhere, which changes no register that an argument may be in. Returns its bytes.
size_t write_far_jump(uint8_t* to, const void* target);
/// The jump of `bytes` bytes that stands at `at` and leads to `target`; 0: it is too far.
size_t write_near_jump(uint8_t* bytes, const uint8_t* at, const uint8_t* target);

/// For processors whose caches do not see what is stored.
void code_was_written(uint8_t* begin, uint8_t* end);

}  // namespace arch
}  // namespace gpupeak::preload
