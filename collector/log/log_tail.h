// Adds to the end of a log whose process has ended: another program's log, the record of the run,
// names. Nobody may be writing the log.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "collector/files/regular_file.h"
#include "gpupeak/log_format.h"

namespace gpupeak::collector {

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

  bool write(const void* bytes, size_t size, uint64_t offset) const;
  /// Makes room for `bytes` zeros behind the end.
  bool grow(uint64_t bytes) const;
  /// Makes the header of a chunk of `bytes` at `offset`.
  gpupeak_chunk_header chunk(uint32_t kind, uint64_t offset, uint64_t bytes) const;
  /// Cuts the file at `end`, and notes in the counters page that it ends there.
  bool set_end(uint64_t end) const;

 private:
  template <class T>
  bool read_at(uint64_t offset, T& value, size_t bytes = sizeof(T)) const;

  struct stat status_ {};
  Descriptor file_;
  bool is_log_ = false;
  uint64_t bytes_ = 0;
  gpupeak_file_header header_{};
  gpupeak_counters_page counters_{};
};

}  // namespace gpupeak::collector
