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
/// A loop of the same two calls leaves next to nothing in its columns. What would be more than this
/// is not packed.
inline constexpr uint64_t kMaxColumnsRatio = 20'000;

}  // namespace gpupeak::collector
