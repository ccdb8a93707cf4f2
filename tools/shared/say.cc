#include "tools/shared/say.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace gpupeak::tools {

void say_text(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) {
      // open() takes the lowest free number, which is this one.
      if (open("/dev/null", O_RDWR | O_CLOEXEC) < 0) return;
    }
  }
}

}  // namespace gpupeak::tools
