#include "collector/files/cache_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "collector/files/fresh_file.h"
#include "collector/files/regular_file.h"
#include "collector/text/byte_pack.h"

namespace gpupeak::collector {
namespace {

namespace fs = std::filesystem;

constexpr off_t kMaxBytes = 256 << 20;  // a larger file is not ours
constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;

/// An entry's name has so many hexadecimal digits. Nothing else in the folder is ours.
constexpr size_t kNameDigits = 16;

bool is_entry_name(const std::string& name) {
  return name.size() == kNameDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

std::string cache_folder(std::string_view kind) {
  const char* base = getenv("XDG_CACHE_HOME");
  const char* home = getenv("HOME");
  std::string folder = base != nullptr && *base == '/' ? base : "";
  if (folder.empty()) {
    if (home == nullptr || *home != '/') return "";
    folder = std::string(home) + "/.cache";
  }
  mkdir(folder.c_str(), S_IRWXU);
  for (const std::string& part : {std::string("/gpupeak"), "/" + std::string(kind)}) {
    folder += part;
    mkdir(folder.c_str(), S_IRWXU);
    if (!is_own_folder(folder)) return "";
  }
  return folder;
}

std::string cache_entry(const std::string& folder, std::string_view key) {
  return fmt::format("{}/{:016x}", folder, checksum(key));
}

std::optional<std::string> read_cache_file(const std::string& path) {
  struct stat status {};
  const Descriptor file = open_regular(path, O_RDONLY | O_NOFOLLOW, status);
  if (!file || !is_own(status, folder_of(path)) || (status.st_mode & kOthersMayWrite) != 0 ||
      status.st_size > kMaxBytes) {
    return std::nullopt;
  }
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t more = ::read(file.get(), bytes.data() + got, bytes.size() - got);
    if (more <= 0) return std::nullopt;
    got += static_cast<size_t>(more);
  }
  futimens(file.get(), nullptr);  // the time of use, for limit_cache()
  return bytes;
}

void write_cache_file(const std::string& path, std::string_view bytes) {
  try {
    write_fresh(
        path, [&](std::ostream& out) { out << bytes; }, S_IRUSR | S_IWUSR);
  } catch (const std::runtime_error&) {  // the result is made again the next time
  }
}

void limit_cache(const std::string& folder, uint64_t most_bytes) {
  std::vector<FileState> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat status {};
    const std::string path = entry->path().string();
    const bool is_ours = is_entry_name(entry->path().filename().string()) &&
                         lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
                         is_own(status, folder);
    if (is_ours) entries.push_back(state_of(path, status));
  }
  std::sort(entries.begin(), entries.end(),
            [](const FileState& a, const FileState& b) { return a.modified_ns > b.modified_ns; });
  uint64_t bytes = 0;
  for (const FileState& entry : entries) {
    bytes += entry.bytes;
    if (bytes > most_bytes) unlink(entry.path.c_str());
  }
}

void keep_in_cache(const std::string& path, std::string_view bytes, uint64_t most_bytes) {
  write_cache_file(path, bytes);
  limit_cache(folder_of(path), most_bytes);
}

}  // namespace gpupeak::collector
