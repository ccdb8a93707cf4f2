#include "base/text.h"

#include <sys/stat.h>

#include <cerrno>

#include "base/environment.h"
#include "base/syscalls.h"

namespace gpupeak::preload {
namespace {

struct FileIdentity {
  bool open = false;
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};
constinit FileIdentity g_stderr;

FileIdentity identity_of(int fd) {
  struct stat status;
  if (sys::failed(sys::fstat(fd, &status))) return {};
  return {true, status.st_dev, status.st_ino};
}

/// Whether a terminal would obey this byte, as a control character of one or two bytes (C1): names
/// and values of variables may have such bytes.
bool is_control(std::string_view text, size_t i) {
  const auto byte = static_cast<unsigned char>(text[i]);
  const auto before = static_cast<unsigned char>(i > 0 ? text[i - 1] : ' ');
  return byte < 0x20 || byte == 0x7f ||
         (byte >= 0x80 && byte <= 0x9f && (before < 0x80 || before == 0xc2));
}

}  // namespace

void remember_stderr() {
  g_stderr = identity_of(2);
}

bool stderr_is_unchanged() {
  return g_stderr.open && identity_of(2) == g_stderr;
}

void say(std::string_view line) {
  if (environment().quiet || !stderr_is_unchanged()) return;
  Text<1024> text;
  constexpr size_t kMostOfLine = 1000;
  text.add("gpupeak: ");
  for (size_t i = 0; i < line.size() && i < kMostOfLine; ++i)
    text.add(is_control(line, i) ? std::string_view("?") : head(tail(line, i), 1));
  text.add("\n");
  sys::write(2, text.view().data(), text.view().size());
}

std::string_view error_text(long error) {
  switch (error < 0 ? -error : error) {
    case EACCES:
      return "permission denied";
    case EROFS:
      return "read-only file system";
    case ENOENT:
      return "no such folder";
    case ENOTDIR:
      return "not a folder";
    case EISDIR:
      return "is a folder";
    case ENOSPC:
      return "no space left on device";
    case EDQUOT:
      return "disk quota exceeded";
    case EFBIG:
      return "file size limit reached";
    case ENAMETOOLONG:
      return "name too long";
    case EMFILE:
    case ENFILE:
      return "too many open files";
    case EPERM:
      return "operation not permitted";
    case ELOOP:
      return "is a symbolic link";
    case EEXIST:
      return "there is a file that is no log, which stays as it is";
    case ENODEV:
      return "is not a regular file";
    case ENOMEM:
      return "out of memory";
    default:
      return "system error";
  }
}

}  // namespace gpupeak::preload
