// Compresses logs: packed_log.h says into what. `gpupeak compress`, `bundle` and `run` do it.
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
  int threads = 0;  ///< besides the caller's; 0 also where zstd was built without
  /// Takes the log's own name: gpupeak_packed_mark comes first, and then its columns
  /// (log_columns.h) in parts, each by a thread, without symbols.
  bool in_place = false;
};

/// The log would shrink so far that no verb would read the package.
struct TooUniform : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// `symbols` empty: the log alone. Where `out` fails it ends at once. Throws TooUniform, when all
/// is written.
void write_packed(std::span<const uint8_t> log, std::string_view symbols, std::ostream& out,
                  const Progress& progress, const Packing& packing = {});

}  // namespace gpupeak::collector
