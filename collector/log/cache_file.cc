#include "collector/log/cache_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace gpupeak::collector {
namespace {

namespace fs = std::filesystem;

constexpr off_t kMaxBytes = 256 << 20;  // a larger file is none of ours
constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

std::string cache_folder(std::string_view kind) {
  const char* base = getenv("XDG_CACHE_HOME");
  const char* home = getenv("HOME");
  std::string folder = base != nullptr && *base == '/' ? base : "";
  if (folder.empty()) {
    if (home == nullptr || *home != '/') return "";
    folder = std::string(home) + "/.cache";
  }
  for (const std::string& part :
       {std::string(), std::string("/gpupeak"), "/" + std::string(kind)}) {
    folder += part;
    mkdir(folder.c_str(), S_IRWXU);
  }
  return folder;
}

std::optional<std::string> read_cache_file(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.fd() < 0 || fstat(file.fd(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != geteuid() || (status.st_mode & kOthersMayWrite) != 0 ||
      status.st_size > kMaxBytes) {
    return std::nullopt;
  }
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t more = ::read(file.fd(), bytes.data() + got, bytes.size() - got);
    if (more <= 0) return std::nullopt;
    got += static_cast<size_t>(more);
  }
  futimens(file.fd(), nullptr);  // it was used now
  return bytes;
}

void write_cache_file(const std::string& path, std::string_view bytes) {
  std::string unfinished = path + ".XXXXXX";
  const File file(mkostemp(unfinished.data(), O_CLOEXEC));
  if (file.fd() < 0) return;
  size_t put = 0;
  while (put < bytes.size()) {
    const ssize_t more = ::write(file.fd(), bytes.data() + put, bytes.size() - put);
    if (more <= 0) break;
    put += static_cast<size_t>(more);
  }
  if (put != bytes.size() || rename(unfinished.c_str(), path.c_str()) != 0) {
    unlink(unfinished.c_str());
  }
}

void limit_cache(const std::string& folder, uint64_t most_bytes) {
  struct Entry {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    const fs::file_time_type used = entry->last_write_time(gone);
    const uint64_t bytes = entry->file_size(gone);
    if (!gone) entries.push_back({used, bytes, entry->path()});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used > b.used; });
  uint64_t bytes = 0;
  for (const Entry& entry : entries) {
    bytes += entry.bytes;
    if (bytes > most_bytes) fs::remove(entry.path, error);
  }
}

}  // namespace gpupeak::collector
