// A map that any thread may use outside a HookScope. HOOK-SAFE.
#pragma once

#include <cstdint>

#include "base/hash_tables.h"
#include "base/hook_scope.h"
#include "base/lock.h"

namespace gpupeak::preload {

/// In a nested call nothing is found, and nothing is changed.
template <typename Value>
class LockedMap {
 public:
  /// Value{}: it has nothing under the key.
  Value find(uint64_t key) {
    Value value{};
    locked([&] {
      if (const Value* const known = map_.find(key)) value = *known;
    });
    return value;
  }
  void insert(uint64_t key, const Value& value) {
    locked([&] { map_.insert(key, value); });
  }
  void erase(uint64_t key) {
    locked([&] { map_.erase(key); });
  }
  template <typename Wants>
  void erase_if(Wants wants) {
    locked([&] { map_.erase_if(wants); });
  }
  /// In a forked child.
  void reset() { lock_.reset(); }

 private:
  template <typename Work>
  void locked(Work work) {
    HookScope hook;
    if (!hook.entered()) return;
    LockGuard guard(lock_);
    work();
  }

  FutexLock lock_;
  FlatMap<Value> map_;
};

}  // namespace gpupeak::preload
