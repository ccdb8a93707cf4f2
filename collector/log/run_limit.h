// Reads what a log says of the limit that `gpupeak run --limit` gave a device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "collector/log/definitions.h"

namespace gpupeak::collector {

struct RunLimit {
  uint64_t bytes = 0, real_bytes = 0;
  bool holds = false;  ///< false: the device has no more memory than that, or shares the host's
  /// The card that the limit stands for, as it may be shown; empty: none was named.
  std::string card;
};

/// The limit of the device. None: there was none, or the log's fact makes no sense.
std::optional<RunLimit> run_limit(const Definitions& definitions, uint64_t ordinal);

}  // namespace gpupeak::collector
