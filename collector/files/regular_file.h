// Opens a file that somebody else may have put there. It must be a regular one, so that we do not
// wait for a pipe's other end and no device does anything.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

#include "collector/files/descriptor.h"

namespace gpupeak::collector {

/// Opens it without waiting. `flags`: as for open(), with O_NOFOLLOW where a link must not be
/// followed. If it cannot be opened the descriptor is empty and errno says why: ENXIO if it is no
/// regular file. `status` is what fstat says.
Descriptor open_regular(const std::string& path, int flags, struct stat& status);
Descriptor open_regular(const std::string& path, int flags = O_RDONLY);

/// The whole content; nullopt if it cannot be opened or read, or has more than `most_bytes`
/// (EFBIG).
std::optional<std::string> read_regular(const std::string& path, uint64_t most_bytes);

}  // namespace gpupeak::collector
