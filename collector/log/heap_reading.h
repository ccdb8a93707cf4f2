// Whether the heap's events of a log are read. They are most of a log, and what is said of devices,
// pools, failures and phases does not need them.
#pragma once

namespace gpupeak::collector {

enum class HeapReading {
  kAll,
  kIfFew,  ///< in a log with device events: only if reading takes no noticeable time
  kNone,   ///< no; but older logs have them among the other events, and there they are read
};

}  // namespace gpupeak::collector
