#include "collector/files/fresh_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ext/stdio_filebuf.h>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "collector/text/byte_pack.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

namespace fs = std::filesystem;

constexpr int kNewFile = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
constexpr int kFolder = O_PATH | O_DIRECTORY | O_CLOEXEC;
constexpr const char* kByName = "file";
constexpr std::string_view kHeldOpen = "/proc/self/fd/";

/// Whether the file is another user's. Root is trusted.
bool is_of_others(const struct stat& status, const std::string& path) {
  return status.st_uid != 0 && !is_own(status, folder_of(path));
}

std::string beside(const std::string& target) {
  const std::string name = fs::path(target).filename().string();
  constexpr size_t kMostOfName = 100;  // a name has at most 255 bytes
  return folder_of(target) + "/." + name.substr(0, kMostOfName) + '.' + unguessable_text() + ".tmp";
}

/// The path as people name it, if it is one in a folder that is held open.
std::string as_named(const std::string& path) {
  const size_t slash = path.starts_with(kHeldOpen) ? path.find('/', kHeldOpen.size()) : path.npos;
  std::error_code error;
  const fs::path folder = slash == path.npos ? "" : fs::read_symlink(path.substr(0, slash), error);
  return folder.empty() ? path : (folder / path.substr(slash + 1)).string();
}

/// Opens the folder `name` in another one, and makes it if it is missing.
Descriptor enter(const Descriptor& outer, const std::string& name) {
  const std::string path = path_in(outer, name);
  if (mkdirat(outer.get(), name.c_str(), 0777) != 0 && errno != EEXIST) cannot_write(path);
  Descriptor inner(openat(outer.get(), name.c_str(), kFolder | O_NOFOLLOW));
  if (inner) return inner;
  const Descriptor link(openat(outer.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat there {};
  if (!link || fstat(link.get(), &there) != 0) cannot_write(path);
  if (!S_ISLNK(there.st_mode)) cannot_write(path, "it is no folder");
  if (is_of_others(there, path)) cannot_write(path, "it is another user's link");
  // Read by the open link, since another file may have its name by now.
  std::string target(PATH_MAX, '\0');
  const ssize_t length = readlinkat(link.get(), "", target.data(), target.size() - 1);
  if (length > 0) inner = Descriptor(openat(outer.get(), target.c_str(), kFolder));
  if (!inner) cannot_write(path);
  return inner;
}

/// Writes to `fd`, which stays the caller's. When this returns, all is in the file.
void write_to(int fd, std::ios::openmode mode, const std::string& target,
              const std::function<void(std::ostream&)>& write) {
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) cannot_write(target);
  constexpr size_t kBufferBytes = 64 << 10;
  __gnu_cxx::stdio_filebuf<char> buffer(copy, mode | std::ios::out | std::ios::binary,
                                        kBufferBytes);
  std::ostream out(&buffer);
  errno = 0;
  write(out);
  out.flush();
  if (!out || buffer.close() == nullptr) cannot_write(target);
}

/// A file that is removed again unless keep() was called.
class Unfinished {
 public:
  explicit Unfinished(std::string path) : path_(std::move(path)) {}
  ~Unfinished() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  const std::string& path() const { return path_; }
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

constexpr uint64_t kMaxBytes = 256 << 20;  // a larger file is not ours
constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;

/// An entry's name has so many hexadecimal digits. Nothing else in the folder is ours.
constexpr size_t kNameDigits = 16;

bool is_entry_name(const std::string& name) {
  return name.size() == kNameDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

void cannot_write(const std::string& path, const std::string& why) {
  throw std::runtime_error("cannot write " + escape(as_named(path)) + ": " + why);
}

void cannot_write(const std::string& path) {
  cannot_write(path, strerror(errno));
}

std::string followed(std::string path) {
  constexpr int kMostLinks = 40;
  struct stat there {};
  for (int i = 0; i < kMostLinks && !path.starts_with("/proc/"); ++i) {
    if (lstat(path.c_str(), &there) != 0 || S_ISREG(there.st_mode) || S_ISDIR(there.st_mode)) break;
    if (!S_ISCHR(there.st_mode) && !S_ISBLK(there.st_mode) && is_of_others(there, path))
      cannot_write(path, "what has that name is another user's");
    if (!S_ISLNK(there.st_mode)) break;
    std::error_code error;
    path = fs::absolute(fs::path(path).parent_path() / fs::read_symlink(path, error))
               .lexically_normal()
               .string();
  }
  return path;
}

Place::Place(const std::string& target) : target_(target) {
  struct stat there {};
  if (lstat(target.c_str(), &there) != 0) return;
  if (!S_ISREG(there.st_mode)) cannot_write(target, "it is no regular file");
  is_free_ = false;
  mode_ = there.st_mode & 0777;
  uid_ = there.st_uid;
  gid_ = there.st_gid;
  if (!is_own(there, folder_of(target)) && geteuid() != 0)
    cannot_write(target, "it is another user's");
}

void Place::pass_on(int fd) const {
  if (is_free_) return;
  struct stat now {};
  if (fstat(fd, &now) != 0) cannot_write(target_);
  // A group that we are not in cannot be kept. The new group then gets only the rights that all
  // others have.
  unsigned mode = mode_;
  if (now.st_uid != uid_ && fchown(fd, uid_, gid_) != 0)
    cannot_write(target_, "it is another user's");
  if (now.st_gid != gid_ && fchown(fd, static_cast<uid_t>(-1), gid_) != 0)
    mode &= ~070u | (mode & 07u) << 3;
  if ((now.st_mode & 0777) != mode && fchmod(fd, mode) != 0) cannot_write(target_);
}

void write_fresh_by_name(const std::string& target,
                         const std::function<void(const std::string& fresh)>& write) {
  const Place place(target);
  Unfinished folder(beside(target));
  if (mkdir(folder.path().c_str(), S_IRWXU) != 0) {
    folder.keep();
    cannot_write(target);
  }
  const Descriptor inside(open(folder.path().c_str(), kFolder | O_NOFOLLOW));
  if (!inside) cannot_write(target);
  write(folder.path() + '/' + kByName);
  const Descriptor file(openat(inside.get(), kByName, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) cannot_write(target);
  place.pass_on(file.get());
  if (renameat(inside.get(), kByName, AT_FDCWD, target.c_str()) != 0) cannot_write(target);
}

void write_fresh(const std::string& target, const std::function<void(std::ostream&)>& write,
                 unsigned mode) {
  write_fresh_by_name(target, [&](const std::string& fresh) {
    const Descriptor file(open(fresh.c_str(), kNewFile, mode));
    if (!file) cannot_write(target);
    write_to(file.get(), std::ios::trunc, target, write);
  });
}

Descriptor inner_folder(const std::string& root, const std::string& inner) {
  const std::string path = followed(root);
  std::error_code error;
  fs::create_directories(path, error);
  Descriptor folder(open(path.c_str(), kFolder));
  if (!folder) cannot_write(root);
  for (const fs::path& name : fs::path(inner)) folder = enter(folder, name.string());
  return folder;
}

std::string path_in(const Descriptor& folder, const std::string& name) {
  return std::string(kHeldOpen) + std::to_string(folder.get()) + '/' + name;
}

void append_to(const std::string& target, const std::function<void(std::ostream&)>& write) {
  const std::string path = followed(target);
  const int own_link = path.starts_with("/proc/") ? 0 : O_NOFOLLOW;
  const Descriptor file(
      open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | own_link, 0666));
  if (!file) cannot_write(target);
  write_to(file.get(), std::ios::app, target, write);
}

std::string cache_entry(std::string_view key) {
  const char* base = getenv("XDG_CACHE_HOME");
  const char* home = getenv("HOME");
  std::string folder = base != nullptr && *base == '/' ? base : "";
  if (folder.empty()) {
    if (home == nullptr || *home != '/') return "";
    folder = std::string(home) + "/.cache";
  }
  mkdir(folder.c_str(), S_IRWXU);
  for (const char* part : {"/gpupeak", "/names"}) {
    folder += part;
    mkdir(folder.c_str(), S_IRWXU);
    if (!is_own_folder(folder)) return "";
  }
  return fmt::format("{}/{:016x}", folder, checksum(key));
}

std::optional<std::string> read_cache_file(const std::string& path) {
  struct stat status {};
  const Descriptor file = open_regular(path, O_RDONLY | O_NOFOLLOW, status);
  if (!file || !is_own(status, folder_of(path)) || (status.st_mode & kOthersMayWrite) != 0)
    return std::nullopt;
  std::optional<std::string> bytes = read_regular(file, status, kMaxBytes);
  if (bytes) futimens(file.get(), nullptr);  // the time of use, for keep_in_cache()
  return bytes;
}

void keep_in_cache(const std::string& path, std::string_view bytes, uint64_t most_bytes) {
  try {
    write_fresh(
        path, [&](std::ostream& out) { out << bytes; }, S_IRUSR | S_IWUSR);
  } catch (const std::runtime_error&) {  // the result is made again the next time
  }
  const std::string folder = folder_of(path);
  std::vector<FileState> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat status {};
    const std::string name = entry->path().string();
    const bool is_ours = is_entry_name(entry->path().filename().string()) &&
                         lstat(name.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
                         is_own(status, folder);
    if (is_ours) entries.push_back(state_of(name, status));
  }
  std::ranges::sort(entries, std::ranges::greater(), &FileState::modified_ns);
  uint64_t sum = 0;
  for (const FileState& entry : entries) {
    sum += entry.bytes;
    if (sum > most_bytes) unlink(entry.path.c_str());
  }
}

}  // namespace gpupeak::collector
