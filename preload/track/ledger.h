// The ledger: readings of how much of a device's memory the driver itself says is in use, and which
// call changed that. Only rare calls are bracketed by two readings (contexts, code, a function's
// first launch, streams, limits …); the collector subtracts the change of tracked memory from the
// difference, and the rest belongs to the bracket's cause. Each byte has one owner: if brackets of
// several threads overlap on a device, each one that closes owns what has changed since the reading
// before. Overlaps are counted. docs/design.md, "The ledger". HOOK-SAFE, called inside a
// DriverScope.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "base/hook_scope.h"
#include "base/hot.h"
#include "base/seen_set.h"
#include "gpupeak/log_format.h"
#include "track/driver_readings.h"

namespace gpupeak::preload {

class LedgerBracket {
 public:
  /// Inactive until open() is called.
  LedgerBracket() = default;
  LedgerBracket(const ApiCall& call, gpupeak_ledger_cause cause, int device) {
    open(call, cause, device);
  }
  ~LedgerBracket() {
    if (call_ != nullptr) close();
  }
  LedgerBracket(const LedgerBracket&) = delete;
  LedgerBracket& operator=(const LedgerBracket&) = delete;

  void open(const ApiCall& call, gpupeak_ledger_cause cause, int device);
  /// The bracket is of this function's first launch. What it grew by is then code or local memory.
  void of_function(CUfunction function) { function_ = function; }
  /// Of the file that is loaded.
  void of_file(const char* path) { file_ = path; }

 private:
  void close();

  const ApiCall* call_ = nullptr;  ///< nullptr: inactive
  gpupeak_ledger_cause cause_ = GPUPEAK_LEDGER_NONE;
  int device_ = -1;
  CUfunction function_ = nullptr;
  const char* file_ = nullptr;
};

/// What has been launched, in which context: a function is loaded into each of its own. To ask
/// which one is current costs a driver call, which programs with one context are spared.
struct Launches {
  SeenSet seen;
  std::atomic<bool> several_contexts{false};

  uint64_t key(const void* handle) const {
    const auto value = reinterpret_cast<uint64_t>(handle);
    return __builtin_expect(several_contexts.load(std::memory_order_relaxed), 0)
               ? key_in_current_context(value)
               : value;
  }
  bool before(const void* handle) const { return seen.contains(key(handle)); }

 private:
  static uint64_t key_in_current_context(uint64_t handle);
};
extern GPUPEAK_OWN Launches g_launches;

/// Whether a launch must be bracketed: the first one of this function in its context.
/// g_launches.before() is the fast path of every launch.
bool is_first_launch(const void* launched);
/// The same for calls that may load the function without launching it.
bool is_first_use(const void* function);

/// The same of a graph. After forget_graph_launches() each is a first one again: a new graph may
/// have the handle of one that was destroyed.
bool is_first_graph_launch(const void* graph);
void forget_graph_launches();
/// After an unload each function's next launch is a first one again.
void forget_launches();

/// Before memory is given back: where a device stands at a peak whose reading is missing, takes it.
void read_unread_peaks_slowly();
inline void read_unread_peaks() {
  if (__builtin_expect(g_unread_peaks.load(std::memory_order_relaxed) != 0, 0))
    read_unread_peaks_slowly();
}

/// A reading, if the last one is older than GPUPEAK_LEDGER_HZ allows; of all devices in use.
void sample_driver_memory();
/// The same at a phase's border, more often.
void sample_driver_memory_at_border();

/// Of a program that is attached to: a reading of all devices that it has a context of, before
/// anything is counted, and one before it is left. What they differ by beyond what was counted
/// passed by.
void read_devices_at_attach();
void read_devices_at_detach();

/// In a forked child.
void forget_ledger();

}  // namespace gpupeak::preload
