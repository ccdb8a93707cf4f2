// A log to whose end something is added when its process has ended: another program's log, the
// record of the run. Nobody may be writing it.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "collector/files/descriptor.h"
#include "gpupeak/log_format.h"

namespace gpupeak::collector {

class LogTail {
 public:
  /// `flags`: as open() takes them. A link is none: what is written here is believed.
  LogTail(const std::string& path, int flags);

  /// Whether it is a log that can be added to; else nothing below has a meaning.
  bool is_log() const { return is_log_; }
  int fd() const { return file_.get(); }
  uid_t owner() const { return status_.st_uid; }
  /// Where the next chunk begins: behind what was written, without the hole that a process leaves
  /// that could not end in order.
  uint64_t bytes() const { return bytes_; }
  const gpupeak_file_header& header() const { return header_; }

  bool write(const void* bytes, size_t size, uint64_t offset) const;
  /// Makes room for as much behind the end, which is zeros.
  bool grow(uint64_t bytes) const;
  /// The header of a chunk at `offset`, which `bytes` long is.
  gpupeak_chunk_header chunk(uint32_t kind, uint64_t offset, uint64_t bytes) const;
  /// What lies before `end` counts, and nothing else is there.
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
