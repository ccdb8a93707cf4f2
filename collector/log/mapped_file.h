// A file mapped read-only. Used by LogReader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "collector/files/regular_file.h"

namespace gpupeak::collector {

class MappedFile {
 public:
  /// Maps the whole of `path` as long as it is now. Throws LogError if it cannot be opened, is no
  /// regular file, is empty, or has more than `most_bytes`.
  explicit MappedFile(const std::string& path, uint64_t most_bytes = UINT64_MAX);
  /// The same for an open file, which it closes. `name` is for errors.
  MappedFile(int fd, const std::string& name);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Keeps only `bytes` bytes from `begin` on; both are whole pages within the file.
  void narrow(uint64_t begin, uint64_t bytes);

  const uint8_t* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  /// Gives back the memory of the whole pages in [begin, end). They can be read again, but slowly.
  void release(uint64_t begin, uint64_t end) const;
  /// Throws LogError if somebody has cut the file since it was mapped: its pages then read as
  /// zeros.
  void require_whole() const;

 private:
  void map(int fd, uint64_t most_bytes);

  std::string name_;
  const uint8_t* data_ = nullptr;
  uint64_t bytes_ = 0;
  std::optional<CutGuard> guard_;
};

}  // namespace gpupeak::collector
