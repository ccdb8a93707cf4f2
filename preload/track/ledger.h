// The ledger: readings of how much of a device's memory the driver says is in use, and which call
// changed that. A rare call (contexts, code, a function's first launch, streams, limits …) is
// bracketed by two readings. The collector subtracts the change of tracked memory from their
// difference; the rest belongs to the bracket's cause. Each byte has one owner: if brackets of
// several threads overlap on a device, each bracket that closes owns what changed since the last
// reading. Overlaps are counted. docs/design.md, "The ledger". HOOK-SAFE, called inside a
// DriverScope.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/compiler.h"
#include "base/hash_tables.h"
#include "base/hook_scope.h"
#include "gpupeak/log_format.h"
#include "track/driver_readings.h"

namespace gpupeak::preload {

class LedgerBracket : NoCopies {
 public:
  /// Inactive until open() is called.
  LedgerBracket() = default;
  LedgerBracket(const ApiCall& call, gpupeak_ledger_cause cause, int device) {
    open(call, cause, device);
  }
  ~LedgerBracket() {
    if (call_ != nullptr) close();
  }

  void open(const ApiCall& call, gpupeak_ledger_cause cause, int device);
  /// The bracket is around this function's first launch. What grows is then code or local memory.
  void of_function(CUfunction function) { function_ = function; }
  /// The bracket is around the loading of this file.
  void of_file(const char* path) { file_ = path; }
  /// What moved is not this call's.
  void did_nothing() { cause_ = GPUPEAK_LEDGER_NONE; }

 private:
  void close();

  const ApiCall* call_ = nullptr;  ///< nullptr: inactive
  gpupeak_ledger_cause cause_ = GPUPEAK_LEDGER_NONE;
  int device_ = -1;
  uint64_t begun_ns_ = 0;  ///< processor time; 0: the device was not read as the bracket was opened
  CUfunction function_ = nullptr;
  const char* file_ = nullptr;
};

/// The driver's name of a function, which may be a kernel's handle; empty: it does not say.
std::string_view function_name(CUfunction function);

/// What has been launched in which context: a function is loaded into each context anew. The
/// current context is asked for only if there are several, since that is a driver call.
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

/// Whether a launch must be bracketed: it is this function's first in its context. Every launch
/// first asks g_launches.before(), which is faster.
bool is_first_launch(const void* launched);
/// The same for calls that may load the function without launching it.
bool is_first_use(const void* function);

/// Whether a launch of this graph must be bracketed: it is the graph's first.
bool is_first_graph_launch(const void* graph);
/// The next launch of each graph is a first one again: a new graph may have the handle of one that
/// was destroyed.
void forget_graph_launches();
/// After an unload: the next launch of each function is a first one again.
void forget_launches();

/// Call it before memory is freed. Reads each device that is at a peak without a reading.
void read_unread_peaks_slowly();
inline void read_unread_peaks() {
  if (__builtin_expect(g_unread_peaks.load(std::memory_order_relaxed) != 0, 0))
    read_unread_peaks_slowly();
}

/// Reads all devices in use, at most GPUPEAK_LEDGER_HZ times a second.
void sample_driver_memory();
/// The same at a phase's begin or end, at most once a millisecond.
void sample_driver_memory_at_border();

/// For an attached program: read all devices with a context, at the attach before anything is
/// counted, and again before the detach. If the readings differ by more than what was counted, the
/// rest was not seen.
void read_devices_at_attach();
void read_devices_at_detach();

/// In a forked child.
void forget_ledger();

}  // namespace gpupeak::preload
