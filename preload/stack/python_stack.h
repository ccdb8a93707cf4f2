// The calling thread's own Python frames. The thread is inside a call that they made, so they stand
// still. They are read as memory, without the GIL, and without running any of the interpreter's
// code but for one lookup of a thread-specific value. Each structure is checked; a stack that
// cannot be read or does not fit is given up. HOOK-SAFE, inside a HookScope.
//
// in    the calling thread, in numpy.empty, called by load, called by <module>
// out   load loader.py:12 ← <module> train.py:3
//
// If only this thread could end the interpreter (PythonRuntime::stands), frames are read in place,
// and a code object that was seen before is not read again. Otherwise the kernel copies the bytes,
// so that a stale pointer is an error and no fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/compiler.h"
#include "base/copied_memory.h"
#include "gpupeak/log_format.h"
#include "stack/python_runtime.h"
#include "stack/python_sites.h"

namespace gpupeak::preload {

// Chains of Python frames that a thread remembers by their places in memory, each with its native
// stack. If all words of a chain are what they were, it is the same stack: then nothing is read,
// numbered or looked up. HOOK-SAFE, inside a HookScope; of one thread.

/// One of these:
/// - a frame that runs code, and the evidence for its number;
/// - since 3.12, a frame that marks where a call of the evaluation function begins;
/// - in 3.11, behind the last frame of such a call: the CFrame of the frames further out.
struct PythonLink {
  uintptr_t at;    ///< 0: behind the outermost
  uintptr_t code;  ///< 0: it runs none
  /// If the code object has a version: where its file's name lies. Else a PythonSites::Known.
  uint64_t evidence;
  uint32_t instruction;  ///< from the code object's address on
  uint32_t version;      ///< 0: the code object has none; without code: the frame's owner
};

/// The links are innermost first; one more link, without a frame, ends them.
struct PythonChain {
  const PythonRuntime* python;
  uintptr_t state, cframe;  ///< of the thread; the CFrame leads to the first frame, or is 0
  uint32_t native, node;    ///< of the native stack; of that stack with its Python frames
  static constexpr uint32_t kNext = 4;
  uint32_t next[kNext];  ///< offsets of chains that were found after this one, the last one first
  uint32_t alike;        ///< offset of a chain of the same stack at other places; 0: none
  PythonLink links[1];
};

/// Programs repeat themselves: a stack is looked for among those that came after the last one
/// before. If known stacks are at other places nearly each time, none is looked for during the next
/// kRest.
class PythonChains {
 public:
  /// The chain of this native stack that is expected next, if it `stands`; else nullptr.
  template <typename Stands>
  const PythonChain* expected(uint32_t native, Stands stands) {
    if (rest_ > 0) {
      --rest_;
      return nullptr;
    }
    for (const uint32_t offset : at(last_)->next) {
      const PythonChain* const chain = at(offset);
      if (chain->native != native || !stands(*chain)) continue;
      found(offset);
      credit_ += credit_ < kMostCredit;
      return chain;
    }
    return nullptr;
  }

  bool rests() const { return rest_ > 0; }
  /// Looks among `first` and the chains that are alike; true if one of them stands.
  template <typename Stands>
  bool is_among(uint32_t first, Stands stands) {
    const bool has_any = first != 0;
    for (; first != 0; first = at(first)->alike) {
      if (!stands(*at(first))) continue;
      found(first);
      return true;
    }
    if (has_any && (credit_ -= kCostOfMiss) < 0) {
      credit_ = kFirstCredit;
      rest_ = kRest;
    }
    return false;
  }

  /// Adds a chain, which `describe` fills. Returns its offset; 0: `describe` could not, or there is
  /// no room.
  template <typename Describe>
  uint32_t learn(uint32_t native, uint32_t node, uint32_t alike, Describe describe) {
    const uint32_t offset = used_;
    PythonChain* const chain = at(offset);
    const size_t room = sizeof bytes_ - offset * kUnit;
    if (room < sizeof(PythonChain)) return refuse();
    used_ = static_cast<uint32_t>(sizeof bytes_ / kUnit);  // a signal handler takes none of it
    in_order();
    const size_t links = describe(*chain, (room - sizeof(PythonChain)) / sizeof(PythonLink));
    if (links == 0) {
      used_ = offset;
      return room < sizeof bytes_ / 16 ? refuse() : 0;
    }
    chain->native = native;
    chain->node = node;
    for (uint32_t& next : chain->next) next = 0;
    chain->alike = alike;
    in_order();
    const size_t bytes = offsetof(PythonChain, links) + (links + 1) * sizeof(PythonLink);
    used_ = static_cast<uint32_t>(offset + (bytes + kUnit - 1) / kUnit);
    ++count_;
    found(offset);
    return offset;
  }

  /// More stacks were turned away than are known.
  bool is_worn() const { return refused_ > count_; }
  void forget() {
    last_ = 0;
    for (uint32_t& next : at(0)->next) next = 0;
    in_order();
    count_ = refused_ = rest_ = 0;
    credit_ = kFirstCredit;
    used_ = kFirst;
  }

 private:
  static constexpr uint32_t kUnit = 64, kRest = 1024;
  static constexpr int32_t kMostCredit = 256, kFirstCredit = 32, kCostOfMiss = 4;
  static constexpr uint32_t kFirst = (sizeof(PythonChain) + kUnit - 1) / kUnit;

  /// The chain at offset 0 is of no stack.
  PythonChain* at(uint32_t offset) {
    return reinterpret_cast<PythonChain*>(bytes_ + size_t{offset} * kUnit);
  }
  void found(uint32_t offset) {
    uint32_t last = offset;
    for (uint32_t& next : at(last_)->next) {
      const uint32_t before = next;
      next = last;
      if (before == offset) break;
      last = before;
    }
    last_ = offset;
  }
  uint32_t refuse() {
    ++refused_;
    return 0;
  }

  uint32_t last_;
  uint32_t used_, count_, refused_;
  int32_t credit_;
  uint32_t rest_;
  alignas(kUnit) uint8_t bytes_[2 << 20];
};

class PythonStack {
 public:
  static constexpr uint32_t kMaxFrames = GPUPEAK_MAX_FRAMES;
  /// The anchor lies beyond the frames that were looked at.
  static constexpr uintptr_t kFarAnchor = UINTPTR_MAX;

  /// Reads the frames anew. There are none if anything is not as it should be. That is counted; so
  /// is a stack without frames though the native stack `evaluates` Python code. `verify`: compares
  /// what was read in place with copies, and counts whether they agree.
  void read(PythonRuntime& python, bool evaluates, bool verify);

  /// Innermost first; at most kMaxFrames.
  uint32_t frame_count() const { return count_; }
  /// Number of the frame in the log (python_sites.h); 0 if there was no more room for it, or if it
  /// has not begun to run code of its own, so that tracebacks leave it out.
  uint32_t number(uint32_t i) const { return frames_[i].number; }
  /// An address in the native frame of the evaluation function that runs the frame; the same for
  /// all frames that one call runs. 0: not known (3.9), each frame has a call of its own.
  uintptr_t anchor(uint32_t i) const { return frames_[i].anchor; }
  /// Two hashes of all numbers and anchors. Each is a sum, so that no frame waits for another one.
  struct Signature {
    uint64_t a = 0, b = 0;

    void add(const Signature& other) {
      a += other.a;
      b += other.b;
    }
    bool operator==(const Signature& other) const { return a == other.a && b == other.b; }
  };
  const Signature& signature() const { return signature_; }

  /// Whether the thread's frames are those of the chain, at the same places. Reads them in place.
  bool stands(const PythonChain& chain);
  /// Writes down where the frames lie that read() has just read. Returns how many links, at most
  /// `room`; 0: the frames cannot be known again by their places.
  uint32_t describe(PythonChain& chain, size_t room);

 private:
  static constexpr uint32_t kMaxStates = 8;
  static constexpr uint32_t kPages = 1024, kPageWays = 4;
  static constexpr uint8_t kFirstOwnerWithoutCode = 3;  ///< entry frames on the C stack

  bool read_in_place(PythonRuntime& python, bool evaluates);
  void read_copies(PythonRuntime& python, bool evaluates);
  void verify_with_copies(PythonRuntime& python, bool evaluates);

  /// Memory in place if `in_place_`, else a copy by CopiedMemory.
  const uint8_t* read(uintptr_t address, size_t bytes) {
    const uintptr_t last = address + bytes - 1, page = number_of_page(address);
    const bool on_known = page == page_ || page == other_page_;
    if (__builtin_expect(in_place_ && on_known && number_of_page(last) == page, 1))
      return reinterpret_cast<const uint8_t*>(address);
    return in_place_ ? read_in_pages(address, last) : memory_.read(address, bytes);
  }
  const uint8_t* read_in_pages(uintptr_t address, uintptr_t last);
  template <typename T>
  bool load(uintptr_t address, T& value) {
    const uint8_t* from = read(address, sizeof value);
    if (from != nullptr) memcpy(&value, from, sizeof value);
    return from != nullptr;
  }
  /// Never 0.
  static uintptr_t number_of_page(uintptr_t address) { return (address >> 12) + 1; }
  /// Whether the kernel has copied from the page of this address before.
  bool is_known_page(uintptr_t address) const {
    const uintptr_t* const pages = pages_for(address);
    for (uint32_t i = 0; i < kPageWays; ++i) {
      if (pages[i] == number_of_page(address)) return true;
    }
    return false;
  }
  void know_page(uintptr_t address) {
    auto* const pages = const_cast<uintptr_t*>(pages_for(address));
    for (uint32_t i = kPageWays; --i > 0;) pages[i] = pages[i - 1];
    pages[0] = number_of_page(address);
  }
  const uintptr_t* pages_for(uintptr_t address) const {
    return pages_ + ((address >> 12) * 0x9e3779b97f4a7c15u >> 40 & (kPages - kPageWays));
  }
  /// Always a copy.
  const uint8_t* read_copy(uintptr_t address, size_t bytes);
  /// A copy of an object without its reference count, which changes all the time; indexed from its
  /// start.
  const uint8_t* read_object(uintptr_t object, size_t bytes);

  /// A frame as the interpreter has it, and what the log calls it.
  struct Frame {
    uintptr_t code;
    uint64_t instruction;  ///< for frame objects an offset into the code, else an address
    uintptr_t anchor;
    uint32_t number;
    bool may_be_incomplete;
  };
  /// The frame that had this distance from the outermost one in the last stack, if its evidence is
  /// known.
  struct LastFrame {
    uintptr_t code;
    uint64_t instruction;
    uintptr_t anchor;
    PythonSites::Known known;
    uint32_t number;
    Signature signature;

    bool is(const Frame& frame) const {
      return code == frame.code && instruction == frame.instruction && anchor == frame.anchor;
    }
  };

  bool code_stands(const PythonRuntime& python, const PythonLink& link);
  bool marked_links_stand(const PythonChain& chain);
  bool flagged_links_stand(const PythonChain& chain);
  uint32_t list_links(PythonChain& chain, size_t room);
  bool describe_code(const LastFrame& last, const uint8_t* now, PythonLink& link);
  bool read_frames(const PythonRuntime& python);
  uint32_t find_states(const PythonRuntime& python, uintptr_t (&states)[kMaxStates]);
  bool read_state(const PythonRuntime& python, uintptr_t state);
  void sort_by_anchor();
  bool read_objects(const PythonRuntime& python, uintptr_t state, uintptr_t frame);
  bool read_flagged(const PythonRuntime& python, uintptr_t cframe);
  bool read_chain(const PythonRuntime& python, uintptr_t frame);
  void add(uintptr_t code, uint64_t instruction, bool may_be_incomplete, uintptr_t anchor);
  bool number_frames(const PythonRuntime& python);
  bool find_number(const PythonRuntime& python, Frame& frame, PythonSites::Known& known);
  bool read_number(const PythonRuntime& python, Frame& frame, PythonSites::Known& known);
  static Signature signature_of(const Frame& frame, uint32_t depth);
  bool read_text(const PythonRuntime& python, uintptr_t object, char* buffer,
                 std::string_view& text);
  bool read_line(const PythonRuntime& python, uintptr_t table, int first_line, uint32_t offset,
                 uint32_t& line);

  const PythonRuntime* last_python_ = nullptr;  ///< of the last stack, if it could be read
  uintptr_t last_state_ = 0;
  uint32_t count_ = 0;
  Frame frames_[kMaxFrames];
  Signature signature_;
  CopiedMemory memory_;
  bool in_place_;                ///< frames of this stack are read in place
  bool was_in_place_;            ///< the last read() could
  bool session_;                 ///< memory_ has begun for this stack
  uintptr_t page_, other_page_;  ///< known pages: frames lie on two stacks, Python's and C's
  uintptr_t pages_[kPages];      ///< numbers of known pages
  PythonSites sites_;
  PythonEvidence evidence_;                      ///< of the frame that is being read
  const PythonRuntime* known_python_ = nullptr;  ///< whose code objects sites_ knows
  LastFrame last_[kMaxFrames];                   ///< of those that were read in place
  Frame verified_[kMaxFrames];                   ///< scratch
  char function_[1024], file_[1024];             ///< scratch: hooks may run on small stacks
};

}  // namespace gpupeak::preload
