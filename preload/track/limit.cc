#include "track/limit.h"

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/text.h"
#include "gpupeak/pages.h"
#include "log/log.h"
#include "track/card_server.h"

namespace gpupeak::preload {
namespace {

/// If after a call less than this could be left below the limit, the driver must decide.
constexpr uint64_t kMargin = 64 << 20;
/// No request takes more of a device than this. Sums of some requests stay in range.
constexpr uint64_t kMostNeed = uint64_t{1} << 46;
/// How long an answer about free memory counts: other processes take memory that we do not see.
constexpr uint64_t kFreshNs = 100'000'000;
/// How long the ballast stays after the last call that needed it: to take it costs milliseconds.
constexpr uint64_t kRestNs = kNsPerSecond;

enum class State : uint8_t { kUnknown, kNoLimit, kLimited };

struct Limited {
  TimedLock lock;  ///< for changes of the ballast; held while the driver answers
  std::atomic<State> state{State::kUnknown};
  /// Of the real card, and of the card that it is to look like: several threads may find them out.
  std::atomic<uint64_t> total{0}, bytes{0};
  std::atomic<uint64_t> ballast{0};
  std::atomic<uint32_t> changes{0};
  std::atomic<uint32_t> users{0};  ///< calls under way that rely on the ballast
  /// What was free beyond the margin when last asked, less the calls that passed since.
  std::atomic<int64_t> budget{0};
  std::atomic<uint64_t> asked_ns{0};   ///< when the driver was last asked; 0: never
  std::atomic<uint64_t> in_flight{0};  ///< bytes of calls under way that passed by the budget
  std::atomic<uint64_t> needed_ns{0};  ///< when the ballast was needed last
  CUmemGenericAllocationHandle handle = 0;

  uint64_t all() const { return total.load(std::memory_order_relaxed); }
  uint64_t shown() const { return bytes.load(std::memory_order_relaxed); }
  uint64_t hidden() const { return all() - shown(); }
  /// The ballast that hides all of hidden(), in whole pages.
  uint64_t whole_ballast() const { return whole_driver_pages(hidden()); }
};
constinit Limited g_limited[kDevices];
constinit std::atomic<int> g_ballasts{0};

const CardLimit& asked_limit(int device) {
  const Environment& e = environment();
  const bool has_own = has_counters(device) && e.device_limits[device].bytes > 0;
  return has_own ? e.device_limits[device] : e.limit;
}

/// nullptr: the device has no limit.
Limited* limited(int device) {
  if (!has_counters(device)) return nullptr;
  Limited& it = g_limited[device];
  State state = it.state.load(std::memory_order_acquire);
  if (state == State::kUnknown) {
    const uint64_t asked = asked_limit(device).bytes;
    const uint64_t total = real_device_total(device);
    if (total == 0) return nullptr;  // the driver is not ready
    state =
        asked == 0 || asked >= total || is_integrated(device) ? State::kNoLimit : State::kLimited;
    it.total.store(total, std::memory_order_relaxed);
    it.bytes.store(state == State::kLimited ? asked : total, std::memory_order_relaxed);
    it.state.store(state, std::memory_order_release);
  }
  return state == State::kLimited ? &it : nullptr;
}

/// Asks how much of the real card is free now. The caller has called nvml_handle() before.
bool ask_free(const Limited& it, int device, uint64_t& free_bytes) {
  uint64_t total = 0;
  if (current_device() == device && real_memory_info(free_bytes, total)) return true;
  NvmlMemory memory;
  if (!memory_of_card(device, memory)) return false;
  free_bytes = it.all() - std::min(it.all(), memory.used);
  return true;
}

/// How much is free below the limit. The rest of the card is hidden, whether there is a ballast or
/// not.
uint64_t room(const Limited& it, uint64_t free_bytes) {
  const uint64_t with_ballast = free_bytes + it.ballast.load(std::memory_order_relaxed);
  return with_ballast - std::min(with_ballast, it.hidden());
}

void drop_ballast(Limited& it) {
  if (it.ballast.load(std::memory_order_relaxed) == 0) return;
  it.changes.fetch_add(1, std::memory_order_acq_rel);
  give_physical_memory(it.handle);
  it.ballast.store(0, std::memory_order_relaxed);
  it.changes.fetch_add(1, std::memory_order_acq_rel);
  g_ballasts.fetch_sub(1, std::memory_order_relaxed);
}

/// False if the driver does not give the ballast. If more is in use than the limit, all free memory
/// is taken: then every request fails.
bool take_ballast(Limited& it, int device, uint64_t free_bytes) {
  constexpr int kAttempts = 3;  // others take and give back memory meanwhile
  for (int i = 0; i < kAttempts; ++i) {
    const uint64_t wanted =
        std::min(it.whole_ballast(), free_bytes / kDriverPageBytes * kDriverPageBytes);
    if (wanted == 0) return true;
    it.changes.fetch_add(1, std::memory_order_acq_rel);
    const bool taken = take_physical_memory(device, wanted, it.handle);
    if (taken) it.ballast.store(wanted, std::memory_order_relaxed);
    it.changes.fetch_add(1, std::memory_order_acq_rel);
    if (taken) {
      g_ballasts.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
    if (!ask_free(it, device, free_bytes)) return false;
  }
  return false;
}

bool is_rested(const Limited& it, uint64_t now) {
  return it.users.load(std::memory_order_acquire) == 0 &&
         now - it.needed_ns.load(std::memory_order_relaxed) > kRestNs;
}

enum class Decision { kPass, kPassByBudget, kDriver, kRefuse };

/// Whether the driver is to decide, and whether it can. The caller holds the lock.
Decision decide(Limited& it, int device, uint64_t bytes, uint64_t need, uint64_t now) {
  uint64_t free_bytes = 0;
  const bool has_whole = it.ballast.load(std::memory_order_relaxed) == it.whole_ballast();
  const bool is_fresh = now - it.asked_ns.load(std::memory_order_relaxed) < kFreshNs;
  if (has_whole && is_fresh) return Decision::kDriver;
  // A call that passed by the budget is either in flight below, or had its memory before the driver
  // is asked; nor can a call that finds the answer fresh spend what was left of an older one.
  it.budget.exchange(0, std::memory_order_acq_rel);
  const uint64_t in_flight = it.in_flight.load(std::memory_order_acquire);
  if (!ask_free(it, device, free_bytes)) return Decision::kPass;
  it.asked_ns.store(now, std::memory_order_release);
  const uint64_t all = room(it, free_bytes), left = all - std::min(all, in_flight);
  const bool is_near = left < need + kMargin;
  if (is_near) it.needed_ns.store(now, std::memory_order_relaxed);
  if (has_whole && (is_near || !is_rested(it, now))) return Decision::kDriver;
  if (it.ballast.load(std::memory_order_relaxed) > 0 &&
      it.users.load(std::memory_order_acquire) > 0)
    return Decision::kDriver;  // only a part of the ballast is there, but others rely on it
  drop_ballast(it);
  if (!is_near) {
    it.in_flight.fetch_add(need, std::memory_order_acq_rel);
    it.budget.store(static_cast<int64_t>(left - need - kMargin), std::memory_order_relaxed);
    return Decision::kPassByBudget;
  }
  if (!ask_free(it, device, free_bytes)) return Decision::kPass;
  if (take_ballast(it, device, free_bytes)) return Decision::kDriver;
  return bytes != kUnknownNeed && need > left ? Decision::kRefuse : Decision::kPass;
}

}  // namespace

LimitScope::LimitScope(int device, uint64_t bytes) {
  t_flags.refused_by_limit = false;
  Limited* const it = limited(device);
  if (it == nullptr) return;
  const uint64_t need = std::min(whole_driver_pages(std::min(bytes, kMostNeed)), kMostNeed);
  const uint64_t now = monotonic_ns();
  if (it->ballast.load(std::memory_order_acquire) == 0 &&
      now - it->asked_ns.load(std::memory_order_acquire) < kFreshNs) {
    it->in_flight.fetch_add(need, std::memory_order_acq_rel);
    const auto wanted = static_cast<int64_t>(need);
    if (it->budget.fetch_sub(wanted, std::memory_order_acq_rel) >= wanted) {
      device_ = device;
      in_flight_ = need;
      return;
    }
    it->in_flight.fetch_sub(need, std::memory_order_acq_rel);
  }
  nvml_handle(device);
  if (!it->lock.lock()) return;
  const Decision decision = decide(*it, device, bytes, need, now);
  if (decision == Decision::kDriver) {
    it->users.fetch_add(1, std::memory_order_acq_rel);
    counted_ = true;
  }
  it->lock.unlock();
  device_ = device;
  if (decision == Decision::kPassByBudget) in_flight_ = need;
  refuses_ = decision == Decision::kRefuse;
}

LimitScope::~LimitScope() {
  if (device_ < 0) return;
  Limited& it = g_limited[device_];
  if (in_flight_ > 0) it.in_flight.fetch_sub(in_flight_, std::memory_order_acq_rel);
  if (counted_) it.users.fetch_sub(1, std::memory_order_acq_rel);
}

void LimitScope::ended(CUresult result) const {
  if (result == CUDA_ERROR_OUT_OF_MEMORY && device_ >= 0)
    t_flags.refused_by_limit = refuses_ || counted_;
}

void rest_limits_slowly() {
  if (g_ballasts.load(std::memory_order_relaxed) == 0) return;
  const uint64_t now = monotonic_ns();
  for (Limited& it : g_limited) {
    if (it.ballast.load(std::memory_order_relaxed) == 0 || !is_rested(it, now)) continue;
    if (!it.lock.lock()) continue;
    if (is_rested(it, now)) drop_ballast(it);
    it.lock.unlock();
  }
}

bool visible_memory_info(uint64_t& free_bytes, uint64_t& total_bytes) {
  const int device = has_limits() ? current_device() : kNoDevice;
  Limited* const it = limited(device);
  if (it == nullptr) return real_memory_info(free_bytes, total_bytes);
  uint64_t ballast = 0;
  const auto ask = [&] { return real_memory_info(free_bytes, total_bytes); };
  if (!with_steady_ballast(device, ask, ballast)) return false;
  free_bytes = free_bytes + ballast - std::min(free_bytes + ballast, it->hidden());
  total_bytes = it->shown();
  return true;
}

uint64_t visible_device_total(int device) {
  const Limited* const it = has_limits() ? limited(device) : nullptr;
  return it != nullptr ? it->shown() : real_device_total(device);
}

int device_of_nvml(void* handle) {
  for (int device = 0; device < kDevices && real_device_total(device) > 0; ++device) {
    if (limited(device) != nullptr && nvml_handle(device) == handle) return device;
  }
  return kNoDevice;
}

uint64_t limit_of(int device, uint64_t real_total) {
  if (device != kNoDevice) return g_limited[device].shown();
  const Environment& e = environment();
  for (const CardLimit& own : e.device_limits) {
    if (own.bytes > 0) return real_total;  // it is not known which limit is this card's
  }
  return e.limit.bytes > 0 ? std::min(e.limit.bytes, real_total) : real_total;
}

uint64_t ballast_of(int device) {
  return has_counters(device) ? g_limited[device].ballast.load(std::memory_order_acquire) : 0;
}

uint32_t ballast_changes(int device) {
  return has_counters(device) ? g_limited[device].changes.load(std::memory_order_acquire) : 0;
}

void log_limit(int device) {
  if (!has_limits() || !has_counters(device)) return;
  const CardLimit& asked = asked_limit(device);
  if (asked.bytes == 0) return;
  const bool holds = limited(device) != nullptr;
  const char* const space = asked.name.view().empty() ? "" : " ";
  define_fact(Text<32>("limit.", device), Text<160>(asked.bytes, " ", g_limited[device].all(),
                                                    holds ? " on" : " off", space, asked.name));
}

void forget_limits() {
  begin_anew(g_limited);
  g_ballasts = 0;
}

}  // namespace gpupeak::preload
