#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include <cerrno>
#include <utility>

#include "base/environment.h"
#include "base/proc_file.h"
#include "base/syscalls.h"
#include "log/log_file.h"

namespace gpupeak::preload {
namespace {

constinit bool g_elsewhere = false;

enum class Owner { kNobody, kOurselves, kLiveProcess };

/// A program that calls exec so soon is most often a wrapper (taskset, env, a shell's `exec`), and
/// the program that is meant comes after it.
constexpr uint64_t kShortImageNs = 1'000'000'000;

/// Whether the counter of this type at this place of the log's counters is not 0.
template <typename Counter>
bool has_counted(long fd, size_t offset) {
  Counter counter = 0;
  return sys::pread(fd, &counter, sizeof counter, static_cast<off_t>(GPUPEAK_LOG_PAGE + offset)) ==
             static_cast<long>(sizeof counter) &&
         counter != 0;
}

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// The folder of `path`, with its slash.
Path folder_of(std::string_view path) {
  return Path(head(path, path.rfind('/') + 1));
}

constexpr int kPrivate = 0600;
long create(const char* path) {
  return sys::open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kPrivate);
}

/// Whether `file`, which is beside `path`, is this user's. On some file systems a new file has
/// another owner than our user (NFS gives root's files to `nobody`): so a new file is made there,
/// and the owners are compared.
bool is_ours(const struct stat& file, std::string_view path) {
  if (file.st_uid == sys::geteuid()) return true;
  uint64_t name = 0;
  if (sys::failed(sys::getrandom(&name, sizeof name))) return false;
  Path probe(folder_of(path), ".gpupeak.");
  probe.add_hex(name);
  const sys::Descriptor made(create(probe.c_str()));
  if (!made.is_open()) return false;
  struct stat own;
  const bool known = !sys::failed(sys::fstat(made.fd, &own));
  sys::unlink(probe.c_str());
  return known && own.st_uid == file.st_uid;
}

/// Whether somebody else has put a file or a link there. Other things have errors of their own.
bool is_of_others(const char* path) {
  struct stat there;
  return !sys::failed(sys::lstat(path, &there)) &&
         (S_ISREG(there.st_mode) || S_ISLNK(there.st_mode)) && !is_ours(there, path);
}

/// Frees the name for this program if the program before exec used no device: deletes that one's
/// log if it recorded for less than a second, else puts it aside. False: that log keeps the name.
bool yield_name(const char* path, long fd, const gpupeak_file_header& theirs,
                const gpupeak_file_header& ours) {
  if (has_counted<uint64_t>(fd, offsetof(gpupeak_counters_page, device_events))) return false;
  if (ours.start_monotonic_ns - theirs.start_monotonic_ns >= kShortImageNs) {
    const std::string_view all(path);
    const std::string_view ending = all.ends_with(".gplog") ? ".gplog" : "";
    long result = -EEXIST;
    for (uint64_t image = 1; result == -EEXIST && image < 100; ++image) {
      const Path aside(head(all, all.size() - ending.size()), ".before", image, ending);
      result = sys::link(path, aside.c_str());
    }
    if (sys::failed(result)) return false;
  }
  return !sys::failed(sys::unlink(path));
}

/// Whose log it is: this process's, from before it called exec; that of another process that still
/// runs (two programs were given the same name); or nobody's, so that it may be replaced.
Owner owner_of(long fd, const gpupeak_file_header& theirs, const gpupeak_file_header& ours) {
  constexpr uint8_t kNotKnown[sizeof theirs.boot_id] = {};
  const bool is_old = __builtin_memcmp(theirs.boot_id, kNotKnown, sizeof kNotKnown) == 0;
  const bool is_same_place =
      __builtin_memcmp(theirs.boot_id, ours.boot_id, sizeof ours.boot_id) == 0 &&
      theirs.pid_namespace == ours.pid_namespace;
  if (!is_old && !is_same_place) {  // our /proc knows nothing of that process
    // It passed its exit handlers.
    if (has_counted<uint32_t>(fd, offsetof(gpupeak_counters_page, ended))) return Owner::kNobody;
    g_elsewhere = true;
    return Owner::kLiveProcess;
  }
  if (process_start_time(static_cast<int>(theirs.pid)) != theirs.process_start_time)
    return Owner::kNobody;
  return theirs.pid == ours.pid && theirs.run_id == ours.run_id ? Owner::kOurselves
                                                                : Owner::kLiveProcess;
}

/// Whether a file begins as the packed log of a process that has ended.
bool is_packed(const void* begin, long bytes) {
  if (bytes < static_cast<long>(sizeof(gpupeak_packed_mark))) return false;
  const auto mark = value_at<gpupeak_packed_mark>(begin);
  return mark.magic == GPUPEAK_PACKED_MAGIC && mark.bytes == sizeof mark.text &&
         __builtin_memcmp(mark.text, GPUPEAK_PACKED_TEXT, sizeof mark.text) == 0;
}

enum class Place { kFree, kOurs, kTaken, kLookAgain };

/// Finds out what is at the path, and frees the path if it may. -errno if that is not possible. If
/// several processes replace the same old log at once, one does it. The others get the lock after
/// it and look again.
long make_free(const char* path, const gpupeak_file_header& ours, Place& place) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY;
  place = Place::kTaken;
  if (is_of_others(path)) return 0;
  const sys::Descriptor file(sys::open(path, kFlags, 0));
  place = Place::kFree;
  if (file.fd == -ENOENT) return 0;
  if (file.fd == -ENXIO) return -ENODEV;  // a socket
  if (!file.is_open()) return file.fd;
  struct stat status;
  if (const long result = sys::fstat(file.fd, &status); sys::failed(result)) return result;
  if (S_ISDIR(status.st_mode)) return -EISDIR;
  if (!S_ISREG(status.st_mode)) return -ENODEV;
  if (!is_ours(status, path)) {  // somebody has put it there since
    place = Place::kTaken;
    return 0;
  }
  if (status.st_size != 0) {
    gpupeak_file_header theirs{};
    const long bytes = sys::read(file.fd, &theirs, sizeof theirs);
    const bool packed = is_packed(&theirs, bytes);
    const bool is_log =
        bytes >= static_cast<long>(sizeof theirs.magic) && theirs.magic == GPUPEAK_LOG_MAGIC;
    if (!packed && !is_log) return -EEXIST;
    const Owner owner = packed ? Owner::kNobody : owner_of(file.fd, theirs, ours);
    if (owner == Owner::kOurselves && yield_name(path, file.fd, theirs, ours)) return 0;
    if (owner != Owner::kNobody) {
      place = owner == Owner::kOurselves ? Place::kOurs : Place::kTaken;
      return 0;
    }
  }
  place = Place::kLookAgain;
  const long locked = sys::flock(file.fd, LOCK_EX | LOCK_NB);
  if (locked == -EWOULDBLOCK) {
    const timespec pause{0, 1'000'000};
    sys::nanosleep(&pause);
    return 0;
  }
  struct stat now;
  if (sys::failed(sys::lstat(path, &now)) || !is_same_file(now, status)) return 0;
  const long result = sys::unlink(path);
  if (!sys::failed(result)) place = Place::kFree;
  return result == -ENOENT ? 0 : result;
}

/// Writes the header and empty counters, then gives the file the mode that is wanted. The first
/// write to a mapped page that is still a hole would read ahead in it for milliseconds (ext4).
long write_head(long fd, const gpupeak_file_header& header) {
  static uint8_t page[GPUPEAK_LOG_PAGE];  // hooks may run on small stacks; one caller at a time
  __builtin_memset(page, 0, sizeof page);
  for (uint64_t end = header.chunks_offset; end > 0; end -= sizeof page) {
    const uint64_t at = end - sizeof page;
    if (at == 0) __builtin_memcpy(page, &header, sizeof header);
    const long written = sys::pwrite(fd, page, sizeof page, static_cast<int64_t>(at));
    if (sys::failed(written)) return written;
    if (written != static_cast<long>(sizeof page)) return -ENOSPC;
  }
  const uint32_t mode = environment().log_mode;
  if (mode != kPrivate) sys::fchmod(fd, mode);  // FAT has no modes
  return 0;
}

/// Makes a file that has its header before it has a name: first without a name, then linked. -errno
/// if this file system cannot do that, or -EEXIST.
long create_unseen(const char* path, const gpupeak_file_header& header) {
  const Path folder = folder_of(path);
  const sys::Descriptor file(sys::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kPrivate));
  if (!file.is_open()) return file.fd;
  long result = write_head(file.fd, header);
  if (sys::failed(result)) return result;
  const Text<64> self("/proc/self/fd/", file.fd);
  result = sys::link(self.c_str(), path, AT_SYMLINK_FOLLOW);
  if (sys::failed(result)) return result;
  // Opened by its name, so that /proc/PID/maps has this name.
  struct stat ours, named;
  sys::Descriptor again(sys::open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0));
  if (again.is_open() && (sys::failed(sys::fstat(file.fd, &ours)) ||
                          sys::failed(sys::fstat(again.fd, &named)) || !is_same_file(ours, named)))
    return -EEXIST;
  return std::exchange(again.fd, -1);
}

long create_file(const char* path, const gpupeak_file_header& header) {
  const long unseen = create_unseen(path, header);
  if (!sys::failed(unseen) || unseen == -EEXIST || unseen == -ENOSPC) return unseen;
  sys::Descriptor file(create(path));
  if (!file.is_open()) return file.fd;
  const long result = write_head(file.fd, header);
  if (!sys::failed(result)) return std::exchange(file.fd, -1);
  sys::unlink(path);
  return result;
}

/// "01234567-89ab-…" as bytes.
void read_boot_id(uint8_t* id, size_t bytes) {
  char text[64];
  const size_t length = read_file("/proc/sys/kernel/random/boot_id", text, sizeof text);
  size_t digits = 0;
  for (size_t i = 0; i < length && digits < 2 * bytes; ++i) {
    const char c = static_cast<char>(text[i] | 0x20);
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) continue;
    id[digits / 2] = static_cast<uint8_t>(id[digits / 2] << 4 | digit);
    ++digits;
  }
}

}  // namespace

void describe_place(gpupeak_file_header& header) {
  read_boot_id(header.boot_id, sizeof header.boot_id);
  struct stat status;
  if (!sys::failed(sys::stat("/proc/self/ns/pid", &status))) header.pid_namespace = status.st_ino;
}

long make_own_folder(std::string_view path) {
  const Path folder(head(path, path.rfind('/')));
  const long readers = environment().log_mode & 044;
  const long made = sys::mkdir(folder.c_str(), 0700 | readers | readers >> 2);
  if (made != -EEXIST) return made;
  struct stat there;
  if (const long result = sys::lstat(folder.c_str(), &there); sys::failed(result)) return result;
  const bool is_good =
      S_ISDIR(there.st_mode) && (there.st_mode & S_IWOTH) == 0 && is_ours(there, path);
  return is_good ? 0 : -EPERM;
}

bool log_of_elsewhere_is_in_the_way() {
  return g_elsewhere;
}

long create_log(std::string_view wanted, const gpupeak_file_header& header, Path& path) {
  const std::string_view ending = wanted.ends_with(".gplog") ? ".gplog" : "";
  const std::string_view stem = head(wanted, wanted.size() - ending.size());
  constexpr int kMostLooks = 50;  // a millisecond each: somebody may hold a lock for good
  uint64_t others = 0, execs = 0;
  int looks = 0;
  for (int tries = 0; tries < 1000; ++tries) {
    path.clear();
    path.add(stem);
    if (others > 0) path.add(".").add(header.pid);
    if (others > 1) path.add(".").add(others);
    if (execs > 0) path.add(".exec").add(execs + 1);
    path.add(ending);
    Place place;
    long result = make_free(path.c_str(), header, place);
    if (sys::failed(result)) return result;
    switch (place) {
      case Place::kOurs:
        ++execs;
        break;
      case Place::kTaken:
        ++others;
        execs = 0;
        break;
      case Place::kLookAgain:
        if (++looks % kMostLooks == 0) ++others;
        break;
      case Place::kFree:
        result = create_file(path.c_str(), header);
        if (result != -EEXIST) return result;  // else another process was faster
        break;
    }
  }
  return -EBUSY;
}

}  // namespace gpupeak::preload
