// A file mapped read-only. Used by LogReader.
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "collector/files/regular_file.h"
#include "collector/text/error.h"

namespace gpupeak::collector {

class MappedFile {
 public:
  /// Maps the whole of `path` as long as it is now. Throws LogError if it cannot be opened, is no
  /// regular file, is empty, or has more than `most_bytes`.
  explicit MappedFile(const std::string& path, uint64_t most_bytes = UINT64_MAX) : name_(path) {
    const Descriptor file = open_regular(path);
    if (!file && errno == ENXIO) throw LogError(path + " is not a regular file", 0);
    if (!file) throw LogError("cannot open " + path + ": " + strerror(errno), 0);
    map(file.get(), most_bytes);
  }
  /// The same for an open file, which it closes. `name` is for errors.
  MappedFile(int fd, const std::string& name) : name_(name) {
    const Descriptor file(fd);
    map(file.get(), UINT64_MAX);
  }
  ~MappedFile() {
    guard_.reset();
    munmap(const_cast<uint8_t*>(data_), bytes_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Keeps only `bytes` bytes from `begin` on; both are whole pages within the file.
  void narrow(uint64_t begin, uint64_t bytes) {
    auto* mapped = const_cast<uint8_t*>(data_);
    if (begin > 0) munmap(mapped, begin);
    if (bytes_ > begin + bytes) munmap(mapped + begin + bytes, bytes_ - begin - bytes);
    data_ += begin;
    bytes_ = bytes;
    guard_->set(data_, bytes_);
  }

  const uint8_t* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  /// Gives back the memory of the whole pages in [begin, end). They can be read again, but slowly.
  void release(uint64_t begin, uint64_t end) const {
    const uint64_t page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t from = (begin + page_bytes - 1) / page_bytes * page_bytes;
    const uint64_t to = end / page_bytes * page_bytes;
    if (from < to) madvise(const_cast<uint8_t*>(data_) + from, to - from, MADV_DONTNEED);
  }
  /// Throws LogError if somebody has cut the file since it was mapped: its pages then read as
  /// zeros.
  void require_whole() const {
    if (guard_->was_cut()) throw LogError(name_ + " was cut by somebody else while it was read", 0);
  }

 private:
  void map(int fd, uint64_t most_bytes) {
    struct stat status {};
    if (fstat(fd, &status) != 0) throw LogError("cannot read " + name_ + ": " + strerror(errno), 0);
    if (status.st_size == 0) throw LogError(name_ + " is empty", 0);
    bytes_ = static_cast<uint64_t>(status.st_size);
    if (bytes_ > most_bytes) throw LogError(name_ + " is too large", 0);
    void* mapped = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) throw LogError("cannot map " + name_ + ": " + strerror(errno), 0);
    data_ = static_cast<const uint8_t*>(mapped);
    guard_.emplace(data_, bytes_);
  }

  std::string name_;
  const uint8_t* data_ = nullptr;
  uint64_t bytes_ = 0;
  std::optional<CutGuard> guard_;
};

}  // namespace gpupeak::collector
