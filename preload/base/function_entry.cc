#include "base/function_entry.h"

#include <sys/mman.h>

#include <cstring>
#include <initializer_list>

#include "base/arch.h"
#include "base/machine_code.h"
#include "base/memory.h"
#include "base/pages.h"
#include "base/syscalls.h"

namespace gpupeak::preload {
namespace {

constexpr size_t kRoomBytes = 64 << 10;

uintptr_t distance(uintptr_t a, uintptr_t b) {
  return a < b ? b - a : a - b;
}

bool protect(uintptr_t begin, uintptr_t end, int protection) {
  const uintptr_t from = page_begin(begin);
  return !sys::failed(
      sys::mprotect(reinterpret_cast<void*>(from), page_end(end) - from, protection));
}

}  // namespace

bool CodeRoom::open(const void* function) {
  const auto wanted = reinterpret_cast<uintptr_t>(function);
  // Below the function first: a program's heap begins behind the program.
  for (const intptr_t step : {-0x100000, -0x1000000, -0x4000000, 0x1000000, 0x4000000}) {
    for (int i = 1; i <= 8; ++i) {
      const uintptr_t hint = (wanted + static_cast<uintptr_t>(step * i)) & ~uintptr_t{0xffff};
      void* found = sys::mmap(reinterpret_cast<void*>(hint), kRoomBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (sys::mmap_failed(found)) return false;
      if (distance(reinterpret_cast<uintptr_t>(found), wanted) < arch::kCodeReach) {
        begin_ = at_ = static_cast<uint8_t*>(found);
        end_ = begin_ + kRoomBytes;
        add_self_bytes(kRoomBytes);
        return true;
      }
      sys::munmap(found, kRoomBytes);
    }
  }
  return false;
}

bool CodeRoom::close() {
  const auto begin = reinterpret_cast<uintptr_t>(begin_);
  arch::code_was_written(begin_, at_);
  return protect(begin, begin + kRoomBytes, PROT_READ | PROT_EXEC);
}

bool prepare_entry(const void* function, size_t bytes, const void* replacement, CodeRoom& room,
                   FunctionEntry& entry) {
  auto* const code = static_cast<uint8_t*>(const_cast<void*>(function));
  const size_t marks = arch::landing_bytes(code, bytes);
  if (bytes <= marks || room.left() < arch::kMostMovedBytes) return false;
  MovedCode moved;
  if (!arch::move_code(code + marks, code + bytes, room.at(), moved)) return false;
  entry.original = room.at();
  room.take(moved.written_bytes);
  uint8_t* const stub = room.at();
  room.take(arch::write_far_jump(stub, replacement));
  entry.at = code + marks;
  entry.jump_bytes = arch::write_near_jump(entry.jump, entry.at, stub);
  return entry.jump_bytes != 0;
}

bool replace_entry(const FunctionEntry& entry) {
  const auto begin = reinterpret_cast<uintptr_t>(entry.at);
  const uintptr_t end = begin + entry.jump_bytes;
  if (!protect(begin, end, PROT_READ | PROT_WRITE | PROT_EXEC)) return false;
  memcpy(entry.at, entry.jump, entry.jump_bytes);
  arch::code_was_written(entry.at, entry.at + entry.jump_bytes);
  protect(begin, end, PROT_READ | PROT_EXEC);
  return true;
}

}  // namespace gpupeak::preload
