// Where a packed log is unpacked: a file that no one else sees and that goes away with its
// descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gpupeak::collector {

/// Throws LogError where it cannot be made or written.
class TemporaryLog {
 public:
  /// For a log of so many bytes, as far as is known: in TMPDIR or /tmp, or in the folder of the
  /// package, where it once lay unpacked, if only that has room. `name`: the package's, escaped,
  /// for errors; it must outlive this.
  TemporaryLog(const std::string& name, uint64_t bytes, const std::string& package);
  ~TemporaryLog();
  TemporaryLog(const TemporaryLog&) = delete;
  TemporaryLog& operator=(const TemporaryLog&) = delete;

  /// Several threads may write, each elsewhere.
  void write_at(uint64_t place, const char* bytes, size_t size) const;
  /// Room for so much more. Returns where it begins.
  uint64_t grow(uint64_t bytes);
  uint64_t bytes() const { return bytes_; }
  /// With room for all of it, holes too: where there is none, reading one would be a SIGBUS.
  int release();

 private:
  [[noreturn]] void fail() const;

  const std::string& name_;
  const std::string folder_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
};

}  // namespace gpupeak::collector
