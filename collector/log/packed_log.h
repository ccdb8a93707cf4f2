// Reads logs that gpupeak or the zstd command compressed, and bundles: a compressed log with its
// symbols behind it. LogReader unpacks them; pack_log.h makes them.
//
// A bundle is an ordinary zstd file: the log's frame, a skippable frame that says what follows, and
// the frame of the symbols. A tool that unpacks it without knowing this gets the log with some text
// at its end, which is still a valid log.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpupeak::collector {

/// Whether a file with these first bytes is a package.
bool is_packed(std::span<const uint8_t> file);

/// A log taken out of its package.
struct Unpacked {
  int fd = -1;          ///< of a file without a name; the caller closes it
  std::string symbols;  ///< of a bundle; else empty
};

/// How much a package may hold. kToRead: what a verb may read (packed_frames.h). kAll: what a log
/// can have shrunk to, for callers that only want the log itself.
enum class Extent { kToRead, kAll };

/// Unpacks `file`, whose path is `name`. Throws LogError if the package is damaged or cut off, if
/// it holds more than `extent`, or if there is no room for its content.
Unpacked unpack(std::span<const uint8_t> file, const std::string& name, Extent extent);

/// The log's first bytes; fewer if the log is shorter. Unpacks no more than a block beyond them.
/// Throws LogError as unpack() does.
std::vector<uint8_t> unpack_front(std::span<const uint8_t> file, const std::string& name,
                                  size_t bytes);

}  // namespace gpupeak::collector
