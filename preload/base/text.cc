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
  struct {
    int error;
    const char* text;
  } constexpr kTexts[] = {{EACCES, "permission denied"},
                          {EROFS, "read-only file system"},
                          {ENOENT, "no such folder"},
                          {ENOTDIR, "not a folder"},
                          {EISDIR, "is a folder"},
                          {ENOSPC, "no space left on device"},
                          {EDQUOT, "disk quota exceeded"},
                          {EFBIG, "file size limit reached"},
                          {ENAMETOOLONG, "name too long"},
                          {EMFILE, "too many open files"},
                          {ENFILE, "too many open files"},
                          {EPERM, "operation not permitted"},
                          {ELOOP, "is a symbolic link"},
                          {EEXIST, "there is a file that is no log, which stays as it is"},
                          {ENODEV, "is not a regular file"},
                          {ENOMEM, "out of memory"}};
  for (const auto& known : kTexts) {
    if (known.error == (error < 0 ? -error : error)) return known.text;
  }
  return "system error";
}

}  // namespace gpupeak::preload
