// Logs compressed with zstd, by gpupeak or by the zstd command, and bundles: a compressed log with
// its symbols behind. LogReader unpacks them; pack_log.h makes them.
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

bool is_packed(std::span<const uint8_t> file);

/// A log taken out of its package.
struct Unpacked {
  int fd = -1;          ///< of a file without a name, the caller's to close
  std::string symbols;  ///< of a bundle; else empty
};

/// What is taken of a package: what a verb may read (packed_frames.h), or as much as a log can have
/// shrunk, for who only wants the log itself.
enum class Extent { kToRead, kAll };

/// Throws LogError if the package is damaged or cut off, holds more than `extent`, or there is no
/// room for what is in it.
Unpacked unpack(std::span<const uint8_t> file, const std::string& name, Extent extent);

/// The log's first bytes, without unpacking more of it than a block; fewer where it ends before.
/// Throws LogError as unpack() does.
std::vector<uint8_t> unpack_front(std::span<const uint8_t> file, const std::string& name,
                                  size_t bytes);

}  // namespace gpupeak::collector
