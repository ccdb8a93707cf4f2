// Tells whether a file has changed since it was looked at, or has come or gone.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "collector/text/byte_pack.h"

namespace gpupeak::collector {

struct FileState {
  std::string path;
  uint64_t device = 0, inode = 0, bytes = 0;
  int64_t modified_ns = 0, changed_ns = 0;  ///< all figures 0: there is no file

  bool operator==(const FileState&) const = default;
};
FileState state_of_file(std::string path);
FileState state_of(std::string path, const struct stat& status);
/// The state of the command that runs: what another build kept may be worse.
FileState state_of_command();

void pack(const FileState& state, BytePacker& out);
FileState unpack_state(ByteUnpacker& in);

}  // namespace gpupeak::collector
