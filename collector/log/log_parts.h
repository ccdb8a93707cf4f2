// A process that goes on with another program by exec opens a new log for it. `gpupeak run` makes
// one file of them: the log of the program that was meant, and those of the others as parts of it,
// each whole, in a chunk of its own. What reads a log reads a part by the name LOG#1, LOG#2 …
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpupeak::collector {

/// Another program of the same process, within the log of the one that was meant.
struct LogPart {
  uint64_t begin = 0, bytes = 0;  ///< where its log lies in the file
  std::string program;            ///< as logged: any bytes
  uint64_t start_monotonic_ns = 0;
  uint64_t device_events = 0;
};

struct PartName {
  std::string log;
  size_t number = 0;  ///< from 1 on; 0: the log itself
};

/// What "a.gplog#2" names, where no file has that very name.
PartName part_name(const std::string& path);

/// Copies the log at `part` to the end of the one at `log`. Nobody may be writing either. False: it
/// did not fit or is no log, and `log` is as it was.
bool add_part(const std::string& log, const std::string& part, std::string_view program);

}  // namespace gpupeak::collector
