// The frames of packed logs, and what the skippable ones say. packed_log reads them, pack_log
// writes them; docs/log-format.md lists them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpupeak::collector {

inline constexpr std::string_view kSymbolsFollow = "gpupeak.symbols/1";
inline constexpr std::string_view kAnyColumnsFollow = "gpupeak.columns/";
/// Followed by how many bytes of the log the columns stand for.
inline constexpr std::string_view kColumnsFollow = "gpupeak.columns/2";
inline constexpr size_t kSkippableHeader = 8;

/// How much log a package may hold if verbs are to read it: of a package of a megabyte, as much as
/// every verb reads in seconds, whatever is in it (docs/reliability.md). Logs shrink to a tenth,
/// but a loop of the same two calls shrinks to next to nothing. A log that shrinks further than
/// that is not packed.
inline constexpr uint64_t kAlwaysReadBytes = 8 << 20, kReadRatio = 32;

constexpr uint64_t most_read_bytes(uint64_t package_bytes) {
  return kAlwaysReadBytes + kReadRatio * package_bytes;
}

}  // namespace gpupeak::collector
