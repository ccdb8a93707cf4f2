#include <pthread.h>

#include <cstring>

#include "base/arch.h"
#include "base/function_entry.h"

namespace gpupeak::preload {
/// A counter of 25 MHz stands still for some hundred cycles, so two of these readings are equal. An
/// event that depends on another thread's event comes at least that much later.
bool arch::counter_can_be_trusted() {
  constexpr int kReadings = 256;
  uint64_t last = counter();
  for (int i = 0; i < kReadings; ++i) {
    const uint64_t now = counter();
    if (now <= last) return false;
    last = now;
  }
  return true;
}

uint64_t arch::thread_id() {
  return pthread_self();
}

// Code that is moved.

namespace {

constexpr size_t kBytes = 4;  // of an instruction, and of a near jump
constexpr int64_t kReach = INT64_C(1) << 27;

void write(uint8_t* to, uint32_t instruction) {
  memcpy(to, &instruction, sizeof instruction);
}

/// bti c, bti jc, paciasp and pacibsp.
bool is_landing(uint32_t instruction) {
  return instruction == 0xd503245f || instruction == 0xd50324df || instruction == 0xd503233f ||
         instruction == 0xd503237f;
}

/// Whether an instruction cannot be moved, because its effect depends on its address, or because
/// the next instruction does not follow: branches, exceptions and system calls, relative addresses
/// and loads.
bool is_bound(uint32_t instruction) {
  const bool is_branch = (instruction & 0x1c000000) == 0x14000000 && !is_landing(instruction) &&
                         (instruction & 0xfffff01f) != 0xd503201f &&
                         (instruction & 0xffc00000) != 0xd5000000;
  const bool is_address = (instruction & 0x1f000000) == 0x10000000;
  const bool is_literal = (instruction & 0x3b000000) == 0x18000000;
  return is_branch || is_address || is_literal;
}

}  // namespace

namespace arch {

const uintptr_t kCodeReach = uintptr_t{100} << 20;

size_t landing_bytes(const uint8_t* code, size_t bytes) {
  return bytes >= kBytes && is_landing(value_at<uint32_t>(code)) ? kBytes : 0;
}

/// One instruction makes room for the jump. Only a branch to itself could lead there.
bool move_code(const uint8_t* code, const uint8_t* end, uint8_t* to, MovedCode& moved) {
  if (static_cast<size_t>(end - code) < 2 * kBytes || is_bound(value_at<uint32_t>(code)))
    return false;
  write(to, value_at<uint32_t>(code));
  // A direct jump: an indirect one may only land where code is marked for it.
  uint8_t back[kBytes];
  if (write_near_jump(back, to + kBytes, code + kBytes) == 0) return false;
  memcpy(to + kBytes, back, kBytes);
  moved = {kBytes, 2 * kBytes};
  return true;
}

size_t write_far_jump(uint8_t* to, const void* target) {
  write(to, 0x58000050);           // ldr x16, the word behind the jump
  write(to + kBytes, 0xd61f0200);  // br x16
  memcpy(to + 2 * kBytes, &target, sizeof target);
  return 2 * kBytes + sizeof target;
}

size_t write_near_jump(uint8_t* bytes, const uint8_t* at, const uint8_t* target) {
  const int64_t distance = target - at;
  if (distance >= kReach || distance < -kReach) return 0;
  write(bytes, 0x14000000 | (static_cast<uint32_t>(distance >> 2) & 0x03ffffff));
  return kBytes;
}

void code_was_written(uint8_t* begin, uint8_t* end) {
  __builtin___clear_cache(reinterpret_cast<char*>(begin), reinterpret_cast<char*>(end));
}

}  // namespace arch
}  // namespace gpupeak::preload
