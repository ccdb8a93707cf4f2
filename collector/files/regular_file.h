// How every file is opened that somebody else may have put where it is: a regular one, so that
// nobody waits for a pipe's other end and no device moves.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

#include "collector/files/descriptor.h"

namespace gpupeak::collector {

/// Opens it without waiting. `flags`: of open(); O_NOFOLLOW where a link is no answer. None and
/// errno if it cannot be opened or is no regular file (then ENXIO). `status` is what fstat says.
Descriptor open_regular(const std::string& path, int flags, struct stat& status);
Descriptor open_regular(const std::string& path, int flags = O_RDONLY);

/// All of it; nothing if it cannot be opened or read, or has more than `most_bytes`: then errno is
/// EFBIG.
std::optional<std::string> read_regular(const std::string& path, uint64_t most_bytes);

}  // namespace gpupeak::collector
