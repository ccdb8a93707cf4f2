// A process can go on with another program by exec, which opens a new log. `gpupeak run` makes one
// file of all these logs: it is the log of the program that was meant, and the others' logs are
// parts of it, each whole and in a chunk of its own. LOG#1, LOG#2 … name the parts wherever a log
// can be named.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "collector/files/regular_file.h"
#include "gpupeak/log_format.h"

namespace gpupeak::collector {

/// Whether this is the header of a chunk of the log that lies at `offset`.
inline bool is_chunk_of(const gpupeak_file_header& log, const gpupeak_chunk_header& chunk,
                        uint64_t offset) {
  return chunk.magic == GPUPEAK_CHUNK_MAGIC && chunk.check == (log.cookie ^ offset) &&
         chunk.bytes >= GPUPEAK_LOG_PAGE && chunk.bytes % GPUPEAK_LOG_PAGE == 0;
}

/// Takes the header and the counters page out of a log's first bytes. False: it is no log of this
/// version, or packed.
bool parse_front(std::span<const uint8_t> front, gpupeak_file_header& header,
                 gpupeak_counters_page& counters);

// Adds to the end of a log whose process has ended: another program's log, the record of the run,
// names. Nobody may be writing the log.

class LogTail {
 public:
  /// Opens the log. `flags`: as open() takes them. A symbolic link is refused, since what is
  /// written here is believed later.
  LogTail(const std::string& path, int flags);

  /// Whether it is a log of this version. If not, nothing below has a meaning.
  bool is_log() const { return is_log_; }
  int fd() const { return file_.get(); }
  uid_t owner() const { return status_.st_uid; }
  /// Where the next chunk begins: behind what was written, without the hole that a process leaves
  /// if it could not end in order.
  uint64_t bytes() const { return bytes_; }
  const gpupeak_file_header& header() const { return header_; }

  bool write(const void* bytes, size_t size, uint64_t offset) const {
    return write_at(fd(), bytes, size, offset);
  }
  /// Makes room for `bytes` zeros behind the end.
  bool grow(uint64_t bytes) const;
  /// Makes the header of a chunk of `bytes` at `offset`.
  gpupeak_chunk_header chunk(uint32_t kind, uint64_t offset, uint64_t bytes) const;
  /// Adds a chunk with this content behind the end. Returns where it begins; 0: there is no room.
  uint64_t append(uint32_t kind, std::string_view content) const;
  /// Cuts the file at `end`, and notes in the counters page that it ends there.
  bool set_end(uint64_t end) const;

 private:
  struct stat status_ {};
  Descriptor file_;
  bool is_log_ = false;
  uint64_t bytes_ = 0;
  gpupeak_file_header header_{};
  gpupeak_counters_page counters_{};
};

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
