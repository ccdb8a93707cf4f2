// The frames of packed logs: what the skippable ones among them say. packed_log reads them,
// pack_log writes them; docs/log-format.md has them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpupeak::collector {

inline constexpr std::string_view kSymbolsFollow = "gpupeak.symbols/1";
inline constexpr std::string_view kAnyColumnsFollow = "gpupeak.columns/";
/// And how many of the log's bytes they are.
inline constexpr std::string_view kColumnsFollow = "gpupeak.columns/2";
inline constexpr size_t kSkippableHeader = 8;

/// How much of a log a package may hold for a verb to read it: of a megabyte as much as every verb
/// reads in seconds, whatever it is (docs/reliability.md). Logs shrink to a tenth, a loop of the
/// same two calls to next to nothing. What would be more is not packed.
inline constexpr uint64_t kAlwaysReadBytes = 8 << 20, kReadRatio = 32;

constexpr uint64_t most_read_bytes(uint64_t package_bytes) {
  return kAlwaysReadBytes + kReadRatio * package_bytes;
}

}  // namespace gpupeak::collector
