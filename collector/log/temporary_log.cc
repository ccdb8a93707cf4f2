#include "collector/log/temporary_log.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "collector/text/error.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kMaxLogBytes = uint64_t{1} << 42;

bool has_room(const std::string& folder, uint64_t bytes) {
  struct statvfs disk {};
  return access(folder.c_str(), W_OK) == 0 && statvfs(folder.c_str(), &disk) == 0 &&
         disk.f_bavail >= bytes / disk.f_frsize;
}

std::string folder_for(uint64_t bytes, const std::string& log) {
  const char* variable = getenv("TMPDIR");
  const std::string usual = variable != nullptr && *variable != 0 ? variable : "/tmp";
  if (has_room(usual, bytes)) return usual;
  const std::string own = std::filesystem::path(log).parent_path().string();
  const std::string beside = own.empty() ? "." : own;
  return has_room(beside, bytes) ? beside : usual;
}

}  // namespace

TemporaryLog::TemporaryLog(const std::string& name, uint64_t bytes, const std::string& package)
    : name_(name), folder_(folder_for(bytes, package)) {
  fd_ = open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd_ >= 0) return;
  std::string path = folder_ + "/gpupeak-XXXXXX";  // not all file systems have O_TMPFILE
  fd_ = mkostemp(path.data(), O_CLOEXEC);
  if (fd_ < 0) fail();
  unlink(path.c_str());
}

TemporaryLog::~TemporaryLog() {
  if (fd_ >= 0) close(fd_);
}

void TemporaryLog::write_at(uint64_t place, const char* bytes, size_t size) const {
  const bool zeros = std::all_of(bytes, bytes + size, [](char byte) { return byte == 0; });
  for (size_t done = 0; !zeros && done < size;) {
    const ssize_t written =
        pwrite(fd_, bytes + done, size - done, static_cast<off_t>(place + done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail();
    done += static_cast<size_t>(written);
  }
}

uint64_t TemporaryLog::grow(uint64_t bytes) {
  if (bytes > kMaxLogBytes - bytes_) throw LogError(name_ + " unpacks to more than 4 TiB", bytes_);
  bytes_ += bytes;
  return bytes_ - bytes;
}

int TemporaryLog::release() {
  const auto end = static_cast<off_t>(bytes_);
  if (ftruncate(fd_, end) != 0) fail();
  if (end > 0 && fallocate(fd_, 0, 0, end) != 0 && (errno == ENOSPC || errno == EDQUOT)) fail();
  return std::exchange(fd_, -1);
}

void TemporaryLog::fail() const {
  throw LogError("cannot unpack " + name_ + " into " + escape(folder_) +
                     " (TMPDIR names another folder): " + strerror(errno),
                 bytes_);
}

}  // namespace gpupeak::collector
