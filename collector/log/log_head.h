// What stands at the front of a log, however long it is: its header and the counters page, which
// the library keeps itself. LogReader reads the rest.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "gpupeak/log_format.h"

namespace gpupeak::collector {

struct LogHead {
  gpupeak_file_header header{};
  gpupeak_counters_page counters{};
  uint64_t bytes = 0;  ///< of the whole file
  uid_t owner = 0;     ///< of the file
};

/// Of a log that is not packed. Throws LogError if it is none, or of a version that is not known.
LogHead read_head(const std::string& path);
/// Of any log: of a packed one no more than its begin is unpacked. `bytes` are those on the disk.
LogHead read_any_head(const std::string& path);

}  // namespace gpupeak::collector
