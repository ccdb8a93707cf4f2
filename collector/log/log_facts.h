// Reads what a log says of its process besides its events: program, host, GPUs. It uses pread
// alone, since `serve` looks at logs for months and must survive that somebody cuts one meanwhile.
#pragma once

#include <string>
#include <vector>

#include "collector/log/definitions.h"
#include "collector/log/log_head.h"

namespace gpupeak::collector {

struct LogFacts {
  std::string program;  ///< file name; empty: not known
  std::string host;
  std::vector<DeviceInfo> devices;  ///< that the program has looked at so far
};

/// Reads a log that is not packed, as far as it is written now. What cannot be read is left out.
LogFacts read_facts(const std::string& path, const LogHead& head);

}  // namespace gpupeak::collector
