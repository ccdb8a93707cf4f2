// What the driver's memory pools have reserved, by device. A pool that is destroyed while blocks of
// it live keeps its memory until the last of them is freed; its handle may name a new pool by then.
// Replay drives it.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "collector/log/event.h"
#include "collector/replay/gauge.h"

namespace gpupeak::collector {

class PoolReserves {
 public:
  /// Of one pool, never used again.
  using Id = uint32_t;
  static constexpr Id kNone = 0;

  void on_event(const PoolEvent& event);
  /// A block of the pool that has this handle now; 0: of none. Its block keeps the result.
  Id allocated(uint64_t handle);
  void freed(Id pool);
  /// The free failed.
  void revived(Id pool);

  /// By device; -1: all devices.
  const std::map<int32_t, Gauge>& reserved() const { return reserved_; }

 private:
  struct Pool {
    int32_t device = -1;
    uint64_t reserved = 0, blocks = 0;
    bool destroyed = false;
  };
  Id id_of(uint64_t handle);
  void change(Pool& pool, int32_t device, uint64_t reserved);

  std::unordered_map<uint64_t, Id> by_handle_;
  std::unordered_map<Id, Pool> pools_;
  Id last_ = kNone;
  std::map<int32_t, Gauge> reserved_;
};

}  // namespace gpupeak::collector
