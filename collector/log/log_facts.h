// What a log says of its process besides its events: program, host, GPUs. Read by pread alone, so
// that a service that looks at logs for months survives one that somebody cuts meanwhile. `serve`
// uses it.
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

/// Of a log that is not packed, as far as it goes now. What cannot be read is left out.
LogFacts read_facts(const std::string& path, const LogHead& head);

}  // namespace gpupeak::collector
