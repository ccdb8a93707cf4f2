// What a log says of a limit that `gpupeak run --limit` gave a device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "collector/log/definitions.h"

namespace gpupeak::collector {

struct RunLimit {
  uint64_t bytes = 0, real_bytes = 0;
  bool holds = false;  ///< false: the device has no more than that, or shares the host's memory
  std::string card;    ///< that it stands for, as it may be shown; empty: none was named
};

/// None was given, or the log does not say it in a way that makes sense.
std::optional<RunLimit> run_limit(const Definitions& definitions, uint64_t ordinal);

}  // namespace gpupeak::collector
