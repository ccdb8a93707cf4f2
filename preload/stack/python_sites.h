// What a thread has read of Python's code objects: for an instruction the number of its frame, and
// the bytes from which that number was made. An address alone proves nothing, since code objects
// are freed and others take their places. So a number is given only if all of these bytes are
// unchanged; they are compared for each stack. HOOK-SAFE, inside a HookScope; of one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/known_table.h"

namespace gpupeak::preload {

/// The bytes that a frame's name, file and line were read from, in the order of reading: the
/// address of each piece follows from the pieces before it.
struct PythonEvidence {
  static constexpr uint32_t kMaxPieces = 12;
  struct Piece {
    uintptr_t object;  ///< to which it belongs
    uintptr_t at;
    const uint8_t* copy;
    uint32_t bytes;
  };

  void begin() {
    count = 0;
    is_complete = true;
    is_enough = false;
  }
  /// What is added from here on is not kept: it cannot have changed if these pieces have not.
  void suffices() { is_enough = true; }
  /// Adds a part of an object; `copy` is a copy of the object from its beginning on.
  void add(uintptr_t object, const uint8_t* copy, size_t offset, size_t bytes) {
    add_copied(object, object + offset, copy + offset, bytes);
  }
  void add_copied(uintptr_t object, uintptr_t at, const uint8_t* copy, size_t bytes) {
    if (is_enough) return;
    if (count == kMaxPieces) is_complete = false;
    if (is_complete) pieces[count++] = {object, at, copy, static_cast<uint32_t>(bytes)};
  }
  /// The number rests on more than is kept.
  void give_up() { is_complete = false; }

  Piece pieces[kMaxPieces];
  uint32_t count;
  bool is_complete, is_enough;
};

class PythonSites {
 public:
  /// A code object with its evidence, as it was when its serial was given. Zeros: none.
  struct Known {
    uint32_t slot, serial;

    uint64_t word() const { return uint64_t{slot} << 32 | serial; }
    static Known of(uint64_t word) {
      return {static_cast<uint32_t>(word >> 32), static_cast<uint32_t>(word)};
    }
  };
  /// The number of a frame that is at this instruction of a code object.
  struct Site {
    uintptr_t code;
    /// Less the code object's address; that tells apart offsets (of frame objects), too.
    uint32_t instruction;
    Known known;
    uint32_t number;  ///< 0: none

    bool is_used() const { return number != 0; }
  };

  /// Begins a stack: each code object has to be compared again.
  void begin() { ++stack_; }

  /// nullptr: not known. Reads the code object and its strings in place, so they must stand; they
  /// do as long as the frame that runs them. The result is valid until the next learn().
  const Site* find(uintptr_t code, uint64_t instruction);
  /// Whether the code object is still what it was; reads as find().
  bool stands(Known known) {
    Code& code = codes_.at(known.slot);
    return code.serial == known.serial && known.serial != 0 &&
           (code.proved == stack_ || prove(code));
  }

  /// `evidence` must be of this stack. Zeros if it was not enough.
  Known learn(uintptr_t code, uint64_t instruction, uint32_t number,
              const PythonEvidence& evidence);

  void forget();

 private:
  static constexpr uint32_t kCodes = 2048, kSites = 8192;
  static constexpr uint32_t kBytes = 1 << 20;
  static constexpr uint32_t kGap = 16, kLine = 64;

  struct Piece {
    uintptr_t at;
    uint32_t offset;  ///< of the copy in bytes_
    uint32_t bytes;
  };
  /// If a version tells all, what has to be compared fills one cache line, and its copy another
  /// one.
  struct alignas(kLine) Code {
    uintptr_t code;
    uint64_t proved;  ///< the stack for which the pieces were last compared
    uintptr_t end;    ///< of the last piece, the line table's
    uint32_t serial;  ///< of what the pieces say; 0: none
    uint32_t count;
    Piece pieces[PythonEvidence::kMaxPieces];

    bool is_used() const { return code != 0; }
  };

  static uint64_t key_of(uintptr_t code, uint32_t place) {
    return code ^ place * 0xff51afd7ed558ccd;
  }
  bool prove(Code& code) const;
  Code* keep(uintptr_t code, const PythonEvidence& evidence);
  void add(Code& code, const PythonEvidence::Piece& piece, bool same_object);

  uint64_t stack_;
  uint32_t last_serial_;
  uint32_t end_;  ///< of what bytes_ holds
  KnownTable<Code, kCodes> codes_;
  KnownTable<Site, kSites> sites_;
  alignas(kLine) uint8_t bytes_[kBytes];
};

}  // namespace gpupeak::preload
