// Whether a reading of track/ledger, of how much of a device's memory is in use as the driver sees
// it, can be trusted, and whether one is missing. HOOK-SAFE.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.h"
#include "base/hook_scope.h"
#include "gpupeak/log_format.h"
#include "track/driver.h"

namespace gpupeak::preload {

/// Lives while a call that allocates or frees is under way. Between the call's effect and its event
/// a reading cannot be trusted. Calls from pools do not count: they are many, and what pools hold
/// seldom changes.
class DeviceCall : NoCopies {
 public:
  enum NotYet { kNotYet };

  DeviceCall() { begin(); }
  explicit DeviceCall(NotYet) {}
  ~DeviceCall() {
    if (!is_open_) return;
    ended_.fetch_add(1, std::memory_order_acq_rel);
    --t_flags.device_calls;
  }
  void begin() {
    is_open_ = true;
    ++t_flags.device_calls;
    begun_.fetch_add(1, std::memory_order_acq_rel);
  }

  /// How many calls have begun, if none is under way; else a number that is never such a count.
  static uint64_t quiet_since() {
    const uint64_t ended = ended_.load(std::memory_order_acquire);
    return begun_.load(std::memory_order_acquire) == ended ? ended : ~uint64_t{0};
  }
  /// Call it in a thread that is in no driver call: its open calls were left by a jump, and end
  /// here.
  static void end_left() {
    ended_.fetch_add(t_flags.device_calls, std::memory_order_acq_rel);
    t_flags.device_calls = 0;
  }
  /// In a forked child, where the calls that other threads were in never end.
  static void forget() { begun_ = ended_ = 0; }
  /// How many calls have begun.
  static uint64_t begun() { return begun_.load(std::memory_order_acquire); }

 private:
  static inline constinit std::atomic<uint64_t> begun_{0}, ended_{0};
  bool is_open_ = false;
};

/// A bit for each device whose tracked bytes have a new peak without a reading. A rise of less than
/// a thousandth does not count, so that a slowly growing program is not read at each step.
extern GPUPEAK_OWN std::atomic<uint32_t> g_unread_peaks;
/// The most tracked bytes at a reading; under the book's lock.
extern GPUPEAK_OWN uint64_t g_read_at[GPUPEAK_LOG_MAX_DEVICES];
/// `live` bytes of a device are tracked now. Holds the book's lock.
inline void note_tracked_bytes(int device, uint64_t live) {
  const uint64_t read_at = g_read_at[device];
  const uint32_t bit = 1u << device;
  if (live > read_at + read_at / 1024 &&
      (g_unread_peaks.load(std::memory_order_relaxed) & bit) == 0)
    g_unread_peaks |= bit;
}
/// In a forked child. Holds the book's lock.
void forget_readings();

}  // namespace gpupeak::preload
