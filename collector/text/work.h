// What has been done for an answer, in pieces that are the same on every machine: a test that says
// how little is read counts these. GPUPEAK_WORK has `report --short` and `run` print them.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpupeak::collector {

struct Work {
  std::atomic<uint64_t> records{0};  ///< of logs, decoded
  std::atomic<uint64_t> names{0};    ///< addresses that were looked for in a file's symbols
  std::atomic<uint64_t> files{0};    ///< whose symbols were read
  std::atomic<uint64_t> rtti_scans{
      0};  ///< of them without symbols, gone through for type information
};

/// Of this process. Several threads may count.
inline Work& work() {
  static Work done;
  return done;
}

/// Counts from here on.
inline void forget_work() {
  for (auto* const done : {&work().records, &work().names, &work().files, &work().rtti_scans})
    *done = 0;
}

}  // namespace gpupeak::collector
