// Reads the front of a log, however long it is: its header, and the counters page, which the
// library keeps up to date. LogReader reads the rest.
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

/// Reads a log that is not packed. Throws LogError if it is no log of this version.
LogHead read_head(const std::string& path);
/// Reads any log. Of a packed one only the beginning is unpacked, and `bytes` is the size of the
/// package. Throws as read_head(), and as unpack_front().
LogHead read_any_head(const std::string& path);

}  // namespace gpupeak::collector
