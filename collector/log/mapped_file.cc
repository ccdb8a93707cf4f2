#include "collector/log/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "collector/files/regular_file.h"
#include "collector/text/error.h"

namespace gpupeak::collector {

MappedFile::MappedFile(const std::string& path, uint64_t most_bytes) : name_(path) {
  const Descriptor file = open_regular(path);
  if (!file && errno == ENXIO) throw LogError(path + " is not a regular file", 0);
  if (!file) throw LogError("cannot open " + path + ": " + strerror(errno), 0);
  map(file.get(), most_bytes);
}

MappedFile::MappedFile(int fd, const std::string& name) : name_(name) {
  const Descriptor file(fd);
  map(file.get(), UINT64_MAX);
}

void MappedFile::map(int fd, uint64_t most_bytes) {
  struct stat status {};
  if (fstat(fd, &status) != 0) {
    throw LogError("cannot read " + name_ + ": " + strerror(errno), 0);
  }
  if (status.st_size == 0) throw LogError(name_ + " is empty", 0);
  bytes_ = static_cast<uint64_t>(status.st_size);
  if (bytes_ > most_bytes) throw LogError(name_ + " is too large", 0);
  void* mapped = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) throw LogError("cannot map " + name_ + ": " + strerror(errno), 0);
  data_ = static_cast<const uint8_t*>(mapped);
  guard_.emplace(data_, bytes_);
}

MappedFile::~MappedFile() {
  guard_.reset();
  munmap(const_cast<uint8_t*>(data_), bytes_);
}

void MappedFile::narrow(uint64_t begin, uint64_t bytes) {
  auto* mapped = const_cast<uint8_t*>(data_);
  if (begin > 0) munmap(mapped, begin);
  if (bytes_ > begin + bytes) munmap(mapped + begin + bytes, bytes_ - begin - bytes);
  data_ += begin;
  bytes_ = bytes;
  guard_->set(data_, bytes_);
}

void MappedFile::release(uint64_t begin, uint64_t end) const {
  const uint64_t page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t from = (begin + page_bytes - 1) / page_bytes * page_bytes;
  const uint64_t to = end / page_bytes * page_bytes;
  if (from < to) madvise(const_cast<uint8_t*>(data_) + from, to - from, MADV_DONTNEED);
}

void MappedFile::require_whole() const {
  if (guard_->was_cut()) throw LogError(name_ + " was cut by somebody else while it was read", 0);
}

}  // namespace gpupeak::collector
