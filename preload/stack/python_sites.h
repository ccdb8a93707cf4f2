// What a thread has read of Python's code objects: for an instruction the number of its frame, and
// the bytes from which that number was made. An address alone proves nothing, since code objects
// are freed and others take their places. So a number is given only if all of these bytes are
// unchanged; they are compared for each stack. HOOK-SAFE, inside a HookScope; of one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpupeak::preload {

// Python frames as the log has them: a function, a file and a line, numbered in the order of their
// first sight. HOOK-SAFE, inside a HookScope.

/// The number of a frame, from 1 on, defined at its first sight; 0 if there is no more room. Frames
/// are told apart by function, file and line, never by an object's address: addresses are used
/// again.
uint32_t python_frame(std::string_view function, std::string_view file, uint32_t line);

/// In the new log of a forked child, or of a program that is attached to again: defines all frames
/// again, under their old numbers.
void redefine_python_frames();

// A hash table of what a thread has found before: open addressing in place, in memory that begins
// as zeros. No entry pushes another one out: when three quarters are used, all is forgotten, and
// what is still needed is soon found again. HOOK-SAFE; of one thread.

/// `Entry` has is_used(), which is false for zeros. When you fill an entry, write last what
/// is_used() looks at: then a signal handler that leaves by a jump leaves no half entry.
template <typename Entry, uint32_t kEntries>
class KnownTable {
  static_assert((kEntries & (kEntries - 1)) == 0);

 public:
  /// The entry for which `is_it` is true; nullptr: there is none.
  template <typename IsIt>
  __attribute__((always_inline)) Entry* find(uint64_t key, IsIt is_it) {
    for (uint32_t i = home(key);; ++i) {
      Entry& entry = entries_[i & (kEntries - 1)];
      if (!entry.is_used()) return nullptr;
      if (is_it(entry)) return &entry;
    }
  }

  /// Room for an entry that is not in the table yet.
  Entry& add(uint64_t key) {
    if (++used_ > kEntries / 4 * 3) {
      forget();
      used_ = 1;
    }
    uint32_t i = home(key);
    while (entries_[i & (kEntries - 1)].is_used()) ++i;
    return entries_[i & (kEntries - 1)];
  }

  void forget() {
    for (Entry& entry : entries_) entry = {};
    used_ = 0;
  }

  Entry& at(uint32_t slot) { return entries_[slot]; }
  uint32_t slot_of(const Entry& entry) const { return static_cast<uint32_t>(&entry - entries_); }

 private:
  static uint32_t home(uint64_t key) {
    return static_cast<uint32_t>(key * 0x9e3779b97f4a7c15u >> 32);
  }

  uint32_t used_;
  alignas(64) Entry entries_[kEntries];
};

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
