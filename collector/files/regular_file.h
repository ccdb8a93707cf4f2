// Files that somebody else may have put there. Only regular ones are opened, so that no pipe makes
// us wait and no device does anything. Also whose a file is, and whether it has changed.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "collector/text/byte_pack.h"

namespace gpupeak::collector {

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }

  /// -1: there is none, and errno says why.
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// Opens it without waiting. `flags`: as for open(), with O_NOFOLLOW where a link must not be
/// followed. If it cannot be opened the descriptor is empty and errno says why: ENXIO if it is no
/// regular file. `status` is what fstat says.
Descriptor open_regular(const std::string& path, int flags, struct stat& status);
Descriptor open_regular(const std::string& path, int flags = O_RDONLY);

/// Whether it is a regular file, or leads to one.
bool is_regular(const std::string& path);

/// The whole content; nullopt if it cannot be opened or read, or has more than `most_bytes`
/// (EFBIG).
std::optional<std::string> read_regular(const std::string& path, uint64_t most_bytes);
/// The same of a file that is open. `status`: what fstat says.
std::optional<std::string> read_regular(const Descriptor& file, const struct stat& status,
                                        uint64_t most_bytes);

// Tells whether a file is this user's own. Another user's file is not believed, joined, renamed or
// removed.

/// Whether a file in `folder` is this user's: its owner is we, or whoever owns a new file there.
/// These differ on some file systems (NFS makes nobody of root, FAT has one owner for all).
bool is_own(const struct stat& file, const std::string& folder);

/// Whether it is a folder of ours, no link, and not writable by everybody. `path` must not end in a
/// slash.
bool is_own_folder(const std::string& path);

/// Whether the path still leads to this very file, without a link.
bool is_still_at(const std::string& path, const struct stat& file);

/// Writes all bytes at this place. False: errno says why not.
bool write_at(int fd, const void* bytes, size_t size, uint64_t place);

/// Writes all of the text. False: it is closed, full, or has no reader any more. Never throws.
/// Raises SIGPIPE unless that is ignored. `waits`: where the descriptor itself does not wait until
/// it has room, this does.
bool write_all(int fd, std::string_view text, bool waits = false);

/// The folder of a path; "." if it has none.
std::string folder_of(const std::string& path);

/// Random characters, so many that nobody can guess a name that has them.
std::string unguessable_text();

// Tells whether a file has changed since it was looked at, or has come or gone.
struct FileState {
  std::string path;
  uint64_t device = 0, inode = 0, bytes = 0;
  int64_t modified_ns = 0, changed_ns = 0;  ///< all figures 0: there is no file

  bool operator==(const FileState&) const = default;
};
FileState state_of_file(std::string path);
FileState state_of(std::string path, const struct stat& status);
/// The state of the command that runs: what another build kept may be worse.
FileState state_of_command();

void pack(const FileState& state, BytePacker& out);
FileState unpack_state(ByteUnpacker& in);

// A file can be cut by anyone who may write it, while it is mapped here. Reading behind its new end
// raises SIGBUS, which would end the process. With this, zeros are read there instead, and callers
// can ask whether that happened.

/// Guards all mappings of this process from now on, also those that have no CutGuard (libelf's).
void guard_mappings();

/// How many times a page of any mapping was missing. If this changes while something is read, what
/// was read is not to be believed.
uint64_t cut_count();

/// Watches one mapping. At most some hundred are watched; cut_count() counts all.
class CutGuard {
 public:
  CutGuard() = default;
  CutGuard(const void* begin, size_t bytes);
  ~CutGuard();
  CutGuard(const CutGuard&) = delete;
  CutGuard& operator=(const CutGuard&) = delete;

  /// The mapping now begins or ends elsewhere.
  void set(const void* begin, size_t bytes);
  bool was_cut() const;

 private:
  size_t slot_ = kNone;
  static constexpr size_t kNone = SIZE_MAX;
};

// Loads libraries that may be missing.

/// dlopen(…, RTLD_NOW | RTLD_LOCAL) by a whole path: from the folder of our own libraries, or one
/// of the system's. So LD_LIBRARY_PATH and the current folder do not count. nullptr if there is
/// none.
void* open_system_library(const char* name);

}  // namespace gpupeak::collector
