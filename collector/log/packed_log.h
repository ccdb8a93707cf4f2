// Reads logs that gpupeak or the zstd command compressed, and bundles: a compressed log with its
// symbols behind it. LogReader unpacks them; pack_log.h makes them.
//
// A bundle is an ordinary zstd file: the log's frame, a skippable frame that says what follows, and
// the frame of the symbols. A tool that unpacks it without knowing this gets the log with some text
// at its end, which is still a valid log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpupeak::collector {

/// Whether a file with these first bytes is a package.
bool is_packed(std::span<const uint8_t> file);

/// A log taken out of its package.
struct Unpacked {
  int fd = -1;          ///< of a file without a name; the caller closes it
  std::string symbols;  ///< of a bundle; else empty
};

/// How much a package may hold. kToRead: what a verb may read. kAll: what a log
/// can have shrunk to, for callers that only want the log itself.
enum class Extent { kToRead, kAll };

/// Unpacks `file`, whose path is `name`. Throws LogError if the package is damaged or cut off, if
/// it holds more than `extent`, or if there is no room for its content.
Unpacked unpack(std::span<const uint8_t> file, const std::string& name, Extent extent);

/// The log's first bytes; fewer if the log is shorter. Unpacks no more than a block beyond them.
/// Throws LogError as unpack() does.
std::vector<uint8_t> unpack_front(std::span<const uint8_t> file, const std::string& name,
                                  size_t bytes);

// The frames of packed logs, and what the skippable ones say. packed_log reads them, pack_log
// writes them; docs/log-format.md lists them all.

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
