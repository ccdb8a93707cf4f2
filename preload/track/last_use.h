// When a block was last used. A use is a kernel's launch, a copy, a fill or a memory operation with
// an address in the block among its arguments. The launch's time counts, not the kernel's. For each
// live block these are kept: its first and its last use, their number, and the longest time between
// two. They go into the log when the block ends. What a kernel does by addresses that it reads from
// memory is not seen: of a block whose address was copied to a device no uses are known. HOOK-SAFE.
//
//   in    a launch with the words 0x7f40002000, 3, 0x7f…
//   out   block 5: first +1.20 s, last +3.40 s, 218 times; at its end the record USED
//
// There are two indexes: blocks that the driver gave, and blocks that arenas gave out of these. An
// address is a use of the innermost block alone.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "gpupeak/log_format.h"
#include "thread/emit.h"
#include "track/address_index.h"
#include "track/driver.h"

namespace gpupeak::preload {

// What a block is used for: copies, fills, and the kernels that get its address. Each role is
// logged when it is first seen, so that it is in the log however the process ends; how often, at
// the block's end. HOOK-SAFE, with the book's lock held but for define_kernel() and the budget.
//
//   cuMemcpyHtoD(5, …)            ROLE block 5 copied_in
//   scale<<<>>>(5, 6), 100 times  KERNEL 1 "scale"; ROLE block 5 kernel 1 argument 0; block 6 …
//   cuMemFree(5)                  ROLE block 5 kernel 1 argument 0 count 100

/// How an address was used: a kernel's number and the place, as a ROLE record has them; 0: it has
/// no role.
using Way = uint64_t;
constexpr Way way_of(uint32_t kernel, uint16_t place) {
  return static_cast<Way>(kernel) << 16 | place;
}
/// Of several addresses in one block that one node of a graph has, all but one have this bit.
constexpr Way kCountsNot = Way{1} << 63;

/// Logs a kernel. `name`: an interned string, 0: not known. `stack`: that launched it first.
uint32_t define_kernel(uint32_t name, uint32_t stack);

/// A launch was not looked at, or could not be read. The log then says that there are such.
void note_left_out_launch();
/// Whether launches have taken their part of the time, so that this one is left out.
class LaunchBudget {
 public:
  bool leaves_out() {
    if (take_one(looks_)) return false;
    if (!take_one(skips_)) return !get_more();
    return true;
  }
  void begin();

 private:
  static bool take_one(std::atomic<uint32_t>& of) {
    const uint32_t left = of.load(std::memory_order_relaxed);
    if (left == 0) return false;
    of.store(left - 1, std::memory_order_relaxed);  // threads at once may take the same one
    return true;
  }
  bool get_more();

  std::atomic<uint32_t> looks_{0}, skips_{0};
  std::atomic<uint64_t> start_ns_{0}, spent_ns_{0};
};
extern constinit GPUPEAK_OWN LaunchBudget g_launch_budget;

/// Whether uses are recorded in this process.
extern constinit GPUPEAK_OWN std::atomic<bool> g_watches_uses, g_watches_all_uses;
inline bool watches_uses() {
  return g_watches_uses.load(std::memory_order_relaxed);
}
/// Whether all are (GPUPEAK_LAST_USE=1): those of blocks that arenas give, and every launch.
inline bool watches_all_uses() {
  return __builtin_expect(g_watches_all_uses.load(std::memory_order_relaxed), 0);
}
/// The index of the blocks that the driver gave.
extern constinit GPUPEAK_OWN AddressIndex g_given_addresses;
/// Call it when the log begins. The log then says that uses are recorded, or why they are not.
void begin_watching_uses();
/// In a forked child, or before a next log.
void forget_uses();

// The caller of these holds the book's lock.

/// A block of the driver's begins; `id` as in the log. Returns its number here; 0: its uses are not
/// recorded.
uint32_t use_began(uint64_t address, uint64_t bytes, uint64_t id, bool is_host);
/// The same for an array, which has no address.
uint32_t array_use_began(uint64_t id);
/// Logs the uses of a block; call it before the record of the block's end. Number 0 is no block.
void use_ended(uint32_t number);
/// A word that may be an address of a block, and how it was used.
struct SeenWord {
  uint64_t word;
  Way way;
};
/// Blocks that lie at this address are used now, by a graph that was given to the stream, `times`
/// times in the same way. `now`: the same for all words of a launch.
void use_in_book(CUstream stream, uint64_t now, const SeenWord& seen, uint64_t times);
/// A number of the block that the address lies in; 0: none.
uint32_t block_at(uint64_t address);
/// The block `id` was mapped at these addresses.
void mapped_use_began(uint64_t address, uint64_t bytes, uint64_t id);
void mapped_use_ended(uint64_t address);

// These are called inside a HookScope, without the lock.

/// The uses of a block since its last record.
struct SeenUses {
  bool is_known = false;
  bool of_several_streams = false;
  uint64_t count = 0, first = 0, last = 0;
  uint64_t idle_since = 0, idle = 0;

  /// Call it if `count` > 0. Writes the times as log_format.h has them: as ticks before the record.
  __attribute__((always_inline)) void put_times(RecordInPlace& record) const {
    const uint64_t now = record.time();
    record.id(now - first).id(now - last);
    const bool is_from_first_to_last = idle == last - first && (idle == 0 || idle_since == first);
    if (is_from_first_to_last && !of_several_streams) return;  // most blocks are used twice
    record.id(idle).id(idle > 0 ? now - idle_since : 0).u(of_several_streams ? 2 : 1);
  }
};
/// An arena gave a block. Call it after the record of that.
void arena_use_began(uint64_t arena, uint64_t address, uint64_t bytes);
/// The block goes. Call it before the record of that, which has the uses.
SeenUses arena_use_ended(uint64_t arena, uint64_t address);
/// The same for PyTorch's arenas, whose memory is always a device's.
void torch_use_began(uint64_t arena, uint64_t address, uint64_t bytes);
SeenUses torch_use_ended(uint64_t arena, uint64_t address);
/// All blocks of an arena go: logs their uses.
void arena_uses_ended(uint64_t arena);

/// The process ends: logs the uses of all live blocks, and that the log has the uses of all blocks.
void log_all_uses();

/// Whether a device's memory lies at the address, and not the host's. Asks the driver where no
/// block is known. Inside a DriverScope.
bool is_on_device(uint64_t address);
/// An array is used now.
void array_used(CUarray array, gpupeak_role role, CUstream stream);

/// Collects the words that may be addresses of blocks, from the arguments of a call that gives work
/// to a device. Used outside any HookScope.
class SeenWords : NoCopies {
 public:
  /// Gets the words, some at a time.
  using Taker = void (*)(void* whose, const SeenWord* words, size_t count);

  SeenWords(Taker taker, void* whose)
      : taker_(taker), whose_(whose), bounds_(g_given_addresses.bounds()) {}
  ~SeenWords() {
    if (count_ > 0) taker_(whose_, words_, count_);
  }

  /// The words that follow are parameters of this kernel.
  void of_kernel(uint32_t kernel) { kernel_ = kernel; }
  /// `place`: as in a ROLE record; 0 without a kernel: a use that has no role.
  __attribute__((always_inline)) void look_at(uint64_t word, uint16_t place) {
    if (__builtin_expect(bounds_.contain(word), 0)) add(word, place);
  }
  /// Looks at each word of the structure at `at`; it is aligned to words.
  __attribute__((always_inline)) void look_at_all(const void* at, size_t bytes, uint16_t place) {
    const char* next = static_cast<const char*>(at);
    if (bytes >= kStretch) {
      const Uppers uppers(bounds_);
      do {
        if (__builtin_expect(uppers.may_be_in(next), 0)) look_at_each(next, kStretch, place);
        next += kStretch;
        bytes -= kStretch;
      } while (bytes >= kStretch);
    }
    look_at_each(next, bytes, place);
  }

 private:
  static constexpr size_t kMost = 128;
  static constexpr size_t kStretch = 8 * sizeof(uint64_t);
  using Halves = uint32_t __attribute__((vector_size(16)));
  using SignedHalves = int32_t __attribute__((vector_size(16)));
  using Words = uint64_t __attribute__((vector_size(16)));

  /// Finds out fast whether a word of a stretch may be in the bounds: structures are long, and most
  /// of their words are sizes and strides. Compares the words' upper halves. It compares them as
  /// signed numbers, since all processors have instructions for that.
  class Uppers {
   public:
    explicit Uppers(const AddressIndex::Bounds& bounds)
        : lowest_(Halves{} + (static_cast<uint32_t>(bounds.lowest >> 32) + kLeast)),
          span_(Halves{} + (static_cast<uint32_t>(bounds.span_of_uppers()) - kLeast)) {}

    __attribute__((always_inline)) bool may_be_in(const char* stretch) const {
      const auto beyond =
          reinterpret_cast<Words>(are_beyond(stretch) & are_beyond(stretch + kStretch / 2));
      return (beyond[0] & beyond[1]) != UINT64_MAX;
    }

   private:
    static constexpr uint32_t kLeast = 1u << 31;

    __attribute__((always_inline)) SignedHalves are_beyond(const char* four_words) const {
      const auto a = value_at<Halves>(four_words),
                 b = value_at<Halves>(four_words + sizeof(Halves));
      const Halves uppers = __builtin_shufflevector(a, b, 1, 3, 5, 7) - lowest_;
      return reinterpret_cast<SignedHalves>(uppers) > reinterpret_cast<SignedHalves>(span_);
    }

    const Halves lowest_, span_;
  };

  __attribute__((always_inline)) void look_at_each(const char* at, size_t bytes, uint16_t place) {
    for (size_t offset = 0; offset + sizeof(uint64_t) <= bytes; offset += sizeof(uint64_t))
      look_at(value_at<uint64_t>(at + offset), place);
  }
  void add(uint64_t word, uint16_t place) {
    if (__builtin_expect(count_ == kMost, 0)) {
      taker_(whose_, words_, count_);
      count_ = 0;
    }
    words_[count_++] = {word, way_of(kernel_, place)};
  }

  const Taker taker_;
  void* const whose_;
  const AddressIndex::Bounds bounds_;  ///< most words are outside, and need no more than this
  size_t count_ = 0;
  uint32_t kernel_ = 0;
  SeenWord words_[kMost];
};
/// A SeenWords::Taker. Blocks at these addresses are used now, by one piece of work that was given
/// to `stream` (a CUstream).
void use_now(void* stream, const SeenWord* words, size_t count);
/// Counts a launch whose parameters could not be read.
void note_unread_launch();

// Finds the words of a launch's parameters that may be addresses. The driver is asked once for each
// function where its parameters lie and how large they are. Called after the real launch succeeded:
// then the driver has read the same memory as is read here. HOOK-SAFE, outside any HookScope.
//
//   kernel(float* out, Sizes by_value, int n)   parameters of 8, 24 and 4 bytes, at 0, 8 and 32
//   → one word of the first, three words of the second, none of the third

// Tensor maps (CUtensorMap). The driver makes one of an address, and a kernel gets it by value: 128
// bytes that only the driver can read. The maps that the driver made are kept by their bytes, as
// many as fit. So the address is known when a map is found among a launch's parameters. HOOK-SAFE.

/// The driver made a map of the memory at `address`, and wrote it to `map`.
void note_tensor_map(const void* map, uint64_t address);

/// `parameters`, `extra`: as cuLaunchKernel has them. False: the driver has not been asked about
/// the function, or the function has parameters but the call gave none. `may_leave_out`: nothing is
/// looked at if launches have taken their part of the time.
bool look_at_parameters(const void* function, void* const* parameters, void* const* extra,
                        SeenWords& seen, bool may_leave_out);
/// Asks the driver first. False: the driver does not say, or as above. Inside a DriverScope.
/// `call`: the launch; nullptr: where it came from is not known.
bool ask_and_look_at_parameters(const void* function, void* const* parameters, void* const* extra,
                                SeenWords& seen, const ApiCall* call);
/// Asks the driver about a function, if that was not done. Inside a DriverScope.
void learn_parameters(const void* function, const ApiCall* call);

/// Functions are unloaded: others may get their addresses.
void forget_parameters();

}  // namespace gpupeak::preload
