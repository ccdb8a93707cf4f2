// The file into which a packed log is unpacked. Nobody else sees it, and it goes away with its
// descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gpupeak::collector {

/// All functions throw LogError if the file cannot be made or written.
class TemporaryLog {
 public:
  /// `bytes`: the size of the log, as far as it is known. The file is in TMPDIR or /tmp, or in the
  /// folder of `package` if only that has room: there the log once lay unpacked. `name`: the
  /// package's, escaped, for errors; it must outlive this.
  TemporaryLog(const std::string& name, uint64_t bytes, const std::string& package);
  ~TemporaryLog();
  TemporaryLog(const TemporaryLog&) = delete;
  TemporaryLog& operator=(const TemporaryLog&) = delete;

  /// Several threads may write at the same time, each to its own place.
  void write_at(uint64_t place, const char* bytes, size_t size) const;
  /// Makes the log longer by `bytes`. Returns where the new part begins.
  uint64_t grow(uint64_t bytes);
  uint64_t bytes() const { return bytes_; }
  /// Returns the descriptor, which is then the caller's. Takes room on the disk for all of the
  /// file, holes too: without room, reading a hole would be a SIGBUS.
  int release();

 private:
  [[noreturn]] void fail() const;

  const std::string& name_;
  const std::string folder_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
};

}  // namespace gpupeak::collector
