#include <algorithm>

#include "base/clock.h"
#include "base/hook_scope.h"
#include "base/memory.h"
#include "base/process_state.h"
#include "log/log.h"
#include "track/last_use.h"

namespace gpupeak::preload {
namespace {

struct Role {
  Way way = 0;
  uint64_t count = 0, logged = 0;  ///< uses; how many of them the log has
  uint32_t next = 0;               ///< the block's next role, or the next free one; 0: none
};
constexpr uint32_t kMostRoles = 1 << 20;
/// A block that has more is memory that somebody else shares out.
constexpr uint32_t kMostOfBlock = 48;

struct Roles {
  Role* all = nullptr;  ///< reserved for kMostRoles; place 0 is no role
  uint32_t made = 0, free = 0;
  uint32_t kernels = 0;
};
constinit Roles g_roles;  // under the book's lock
constinit std::atomic<bool> g_has_left_out{false};

uint32_t take_role() {
  if (g_roles.all == nullptr) {
    g_roles.all = static_cast<Role*>(reserve_pages(kMostRoles * sizeof(Role)));
    if (g_roles.all == nullptr) return 0;
  }
  const uint32_t number = g_roles.free;
  if (number == 0) return g_roles.made + 1 < kMostRoles ? ++g_roles.made : 0;
  g_roles.free = g_roles.all[number].next;
  return number;
}

void log_role(const Use& use, Role& role) {
  ThreadSlot* const slot = RecordInPlace::find_slot();
  if (slot == nullptr) return;
  RecordInPlace record(*slot);
  record.u(use.arena).u(use.arena != 0 ? use.begin : use.id).u(role.way >> 16);
  record.u(role.way & 0xffff).u(role.count).end(GPUPEAK_REC_ROLE);
  role.logged = role.count;
}

__attribute__((noinline)) void add_role(Use& use, Way way, uint64_t times) {
  const uint32_t number = use.role_count < kMostOfBlock ? take_role() : 0;
  if (number == 0) return note_left_out_launch();
  Role& role = g_roles.all[number];
  role = {way, times, 0, use.roles};
  use.roles = number;
  ++use.role_count;
  log_role(use, role);
}

}  // namespace

constinit LaunchBudget g_launch_budget;

void note_role(Use& use, Way way, uint64_t times) {
  if (way == 0) return;
  uint32_t before = 0;
  for (uint32_t number = use.roles; number != 0;) {
    Role& role = g_roles.all[number];
    if (role.way != way) {
      before = number;
      number = role.next;
      continue;
    }
    role.count += times;
    if (before != 0) {  // what comes again stands first
      g_roles.all[before].next = role.next;
      role.next = use.roles;
      use.roles = number;
    }
    return;
  }
  add_role(use, way, times);
}

void log_roles(const Use& use) {
  for (uint32_t number = use.roles; number != 0; number = g_roles.all[number].next) {
    Role& role = g_roles.all[number];
    if (role.count != role.logged) log_role(use, role);
  }
}

void give_roles_back(Use& use) {
  while (use.roles != 0) {
    Role& role = g_roles.all[use.roles];
    const uint32_t next = role.next;
    role.next = g_roles.free;
    g_roles.free = use.roles;
    use.roles = next;
  }
  use.role_count = 0;
}

void forget_roles() {
  g_roles = {};
  g_has_left_out.store(false, std::memory_order_relaxed);
}

uint32_t define_kernel(uint32_t name, uint32_t stack) {
  ThreadSlot* const slot = RecordInPlace::find_slot();
  if (slot == nullptr) return 0;
  const uint32_t number = ++g_roles.kernels;
  RecordInPlace record(*slot);
  record.u(number).u(name).u(stack).end(GPUPEAK_REC_KERNEL);
  return number;
}

void note_left_out_launch() {
  if (g_has_left_out.load(std::memory_order_relaxed)) return;
  if (g_has_left_out.exchange(true, std::memory_order_relaxed)) return;
  HookScope scope;
  if (recording()) define_fact("launches", "not all");
}

void LaunchBudget::begin() {
  looks_.store(0, std::memory_order_relaxed);
  skips_.store(0, std::memory_order_relaxed);
  spent_ns_.store(0, std::memory_order_relaxed);
  start_ns_.store(monotonic_ns(), std::memory_order_relaxed);
}

bool LaunchBudget::get_more() {
  constexpr uint64_t kPart = 100;    // of the time since the start
  constexpr uint64_t kLookNs = 200;  // what a look takes, with some addresses of blocks
  constexpr uint64_t kMost = 4096;
  constexpr uint32_t kSkips = 64;  // so that the clock is seldom read
  const uint64_t allowed = (monotonic_ns() - start_ns_.load(std::memory_order_relaxed)) / kPart;
  const uint64_t spent = spent_ns_.load(std::memory_order_relaxed);
  const uint64_t looks = allowed > spent ? std::min((allowed - spent) / kLookNs, kMost) : 0;
  if (looks == 0) {
    skips_.store(kSkips, std::memory_order_relaxed);
    note_left_out_launch();
    return false;
  }
  spent_ns_.store(spent + looks * kLookNs, std::memory_order_relaxed);
  looks_.store(static_cast<uint32_t>(looks) - 1, std::memory_order_relaxed);
  return true;
}

}  // namespace gpupeak::preload
