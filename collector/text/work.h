// Counts the work that was done for an answer, in units that are the same on every machine. Tests
// that check how little is read use it. With GPUPEAK_WORK, `report --short` and `run` print it.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpupeak::collector {

struct Work {
  std::atomic<uint64_t> records{0};  ///< decoded records of logs
  std::atomic<uint64_t> names{0};    ///< addresses that were looked for in a file's symbols
  std::atomic<uint64_t> files{0};    ///< files whose symbols were read
  /// Files without symbols that were searched for type information.
  std::atomic<uint64_t> rtti_scans{0};
};

/// The counts of this process. Several threads may count.
inline Work& work() {
  static Work done;
  return done;
}

/// Sets all counts to 0.
inline void forget_work() {
  for (auto* const done : {&work().records, &work().names, &work().files, &work().rtti_scans})
    *done = 0;
}

}  // namespace gpupeak::collector
