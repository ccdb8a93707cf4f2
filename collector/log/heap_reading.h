// Heap events are nearly all of a log; what is said of devices, pools, failures and phases does not
// need them.
#pragma once

namespace gpupeak::collector {

enum class HeapReading {
  kAll,
  kIfFew,  ///< of a log with device events only if they take no time
  kNone,   ///< older logs have them among all others: of these they are read
};

}  // namespace gpupeak::collector
