// A process can go on with another program by exec, which opens a new log. `gpupeak run` makes one
// file of all these logs: it is the log of the program that was meant, and the others' logs are
// parts of it, each whole and in a chunk of its own. LOG#1, LOG#2 … name the parts wherever a log
// can be named.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpupeak::collector {

/// One part: the log of another program of the same process.
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

/// Splits "a.gplog#2" into the log and the part's number. A file that has exactly that name comes
/// first.
PartName part_name(const std::string& path);

/// Copies the log at `part` to the end of the log at `log`. Nobody may be writing either. False: it
/// did not fit or one is no log, or not of the same run and owner; then `log` is as it was.
bool add_part(const std::string& log, const std::string& part, std::string_view program);

}  // namespace gpupeak::collector
