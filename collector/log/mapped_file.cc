#include "collector/log/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "collector/text/error.h"

namespace gpupeak::collector {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) throw LogError("cannot open " + path + ": " + strerror(errno), 0);
  map(file.fd, path);
}

MappedFile::MappedFile(int fd, const std::string& name) {
  const Descriptor file{fd};
  map(file.fd, name);
}

void MappedFile::map(int fd, const std::string& path) {
  struct stat status {};
  if (fstat(fd, &status) != 0) {
    throw LogError("cannot read " + path + ": " + strerror(errno), 0);
  }
  if (!S_ISREG(status.st_mode)) throw LogError(path + " is not a regular file", 0);
  if (status.st_size == 0) throw LogError(path + " is empty", 0);
  bytes_ = static_cast<uint64_t>(status.st_size);
  void* mapped = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) throw LogError("cannot map " + path + ": " + strerror(errno), 0);
  data_ = static_cast<const uint8_t*>(mapped);
}

MappedFile::~MappedFile() {
  munmap(const_cast<uint8_t*>(data_), bytes_);
}

void MappedFile::narrow(uint64_t begin, uint64_t bytes) {
  auto* mapped = const_cast<uint8_t*>(data_);
  if (begin > 0) munmap(mapped, begin);
  if (bytes_ > begin + bytes) munmap(mapped + begin + bytes, bytes_ - begin - bytes);
  data_ += begin;
  bytes_ = bytes;
}

void MappedFile::release(uint64_t begin, uint64_t end) const {
  const uint64_t page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t from = (begin + page_bytes - 1) / page_bytes * page_bytes;
  const uint64_t to = end / page_bytes * page_bytes;
  if (from < to) madvise(const_cast<uint8_t*>(data_) + from, to - from, MADV_DONTNEED);
}

}  // namespace gpupeak::collector
