// What a block is used for: copies, fills, and the kernels that get its address. Each role is
// logged when it is first seen, so that it is in the log however the process ends; how often, at
// the block's end. HOOK-SAFE, with the book's lock held but for define_kernel() and the budget.
//
//   cuMemcpyHtoD(5, …)            ROLE block 5 copied_in
//   scale<<<>>>(5, 6), 100 times  KERNEL 1 "scale"; ROLE block 5 kernel 1 argument 0; block 6 …
//   cuMemFree(5)                  ROLE block 5 kernel 1 argument 0 count 100
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.h"
#include "gpupeak/log_format.h"
#include "track/address_index.h"

namespace gpupeak::preload {

struct CallerFrame;

/// How an address was used: a kernel's number and the place, as a ROLE record has them; 0: it has
/// no role.
using Way = uint64_t;
constexpr Way way_of(uint32_t kernel, uint16_t place) {
  return static_cast<Way>(kernel) << 16 | place;
}
/// Of several addresses in one block that one node of a graph has, all but one have this bit.
constexpr Way kCountsNot = Way{1} << 63;

/// Counts `times` uses of the block.
void note_role(Use& use, Way way, uint64_t times);
/// Logs the roles that have come again since they were logged.
void log_roles(const Use& use);
/// The block is gone, and its roles have been logged.
void give_roles_back(Use& use);
/// In a forked child, or before a next log.
void forget_roles();

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

}  // namespace gpupeak::preload
