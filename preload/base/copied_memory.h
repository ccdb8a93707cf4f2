// Reads memory that may be gone: the kernel copies it, so that a stale pointer gives an error and
// never a fault. Reads come in sessions. When a session begins, one system call copies again all
// that the last session read, since most read the same places. HOOK-SAFE; one thread at a time.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpupeak::preload {

/// Reads one word; false if it cannot be read. Any thread may call it.
bool copy_word(uintptr_t address, uint64_t& word);

class CopiedMemory {
 public:
  /// Begins a session: earlier copies are not valid any more. True if all that the last session
  /// read still reads the same, so that reading it again would find the same.
  bool begin();

  /// Begins a session too, but without copying what the last session read.
  void begin_anew();

  /// A copy of [address, address + bytes) as it was in this session, valid until the next begin();
  /// nullptr if it cannot be read or there is no more room.
  const uint8_t* read(uintptr_t address, size_t bytes);

  /// Reads a value; false if it cannot be read.
  template <typename T>
  bool load(uintptr_t address, T& value) {
    const uint8_t* copy = read(address, sizeof value);
    if (copy != nullptr) memcpy(&value, copy, sizeof value);
    return copy != nullptr;
  }

  /// Whether the kernel lets us copy at all; a seccomp filter may forbid it.
  static bool is_allowed();

 private:
  static constexpr uint32_t kRanges = 8192;
  static constexpr uint32_t kSlots = 2 * kRanges;
  static constexpr uint32_t kBytes = 1 << 20;
  static constexpr uint32_t kMaxGap = 32;      ///< a gap of at most so many bytes is copied too
  static constexpr uint32_t kMaxPieces = 256;  ///< in one system call

  struct Range {
    uintptr_t address;
    uint32_t bytes;
    uint32_t offset;    ///< where the copy is in its buffer
    bool begins_piece;  ///< the range before it in the buffer is not the one before it in memory
    bool valid;         ///< the copy is of this session
    bool used;          ///< asked for in this session
  };
  void lay_out();
  bool copy_all();
  uint8_t* copies() { return data_[current_]; }
  uint32_t find(uintptr_t address, size_t bytes) const;
  void index(uint32_t range);

  uint32_t count_ = 0;
  uint32_t end_ = 0;       ///< how many bytes of the buffer are in use
  uint32_t laid_out_ = 0;  ///< ranges that were there when the session began
  uint32_t used_ = 0;      ///< how many of these were asked for
  bool complete_ = false;  ///< nothing of the last session failed
  uint32_t table_ = 0;     ///< number of the layout; entries of slots_ with another one are empty
  uint32_t current_ = 0;
  Range ranges_[kRanges];
  struct {
    uint32_t table, range;
  } slots_[kSlots];           ///< ranges by address
  iovec pieces_[kMaxPieces];  ///< scratch: hooks may run on small stacks
  uint8_t data_[2][kBytes];   ///< of this session and of the last one
};

}  // namespace gpupeak::preload
