// Compresses logs to the packages that packed_log.h describes. `gpupeak compress`, `bundle` and
// `run` do it.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string_view>

#include "collector/log/progress.h"

namespace gpupeak::collector {

struct Packing {
  int level = 9;    ///< as the zstd command's
  int threads = 0;  ///< in addition to the caller's; no effect where zstd has no threads
  /// The package takes the log's own name: gpupeak_packed_mark comes first. Behind it are the log's
  /// columns (log_columns.h) in parts, each made by a thread, and no symbols.
  bool in_place = false;
};

/// Thrown if the log shrinks so far that no verb would read the package.
struct TooUniform : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Writes the package of `log` and `symbols` to `out`; without symbols if they are empty. Stops if
/// `out` fails. Throws TooUniform, after all is written.
void write_packed(std::span<const uint8_t> log, std::string_view symbols, std::ostream& out,
                  const Progress& progress, const Packing& packing = {});

}  // namespace gpupeak::collector
