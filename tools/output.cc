#include "output.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <stdexcept>

namespace gpupeak::tools {
namespace {

/// Whether there is something at `path` that no file may take the place of: /dev/null, a pipe.
bool is_special(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

}  // namespace

void replace_file(const std::string& path,
                  const std::function<void(const std::string& fresh)>& write) {
  if (is_special(path)) return write(path);
  const std::string fresh = path + ".tmp";
  try {
    write(fresh);
  } catch (...) {
    unlink(fresh.c_str());
    throw;
  }
  if (rename(fresh.c_str(), path.c_str()) == 0) return;
  const std::string reason = strerror(errno);
  unlink(fresh.c_str());
  throw std::runtime_error(fmt::format("cannot write {}: {}", path, reason));
}

void write_output(const std::string& path, const std::function<void(std::ostream&)>& write) {
  if (path.empty()) {
    write(std::cout);
    std::cout.flush();
    if (!std::cout) throw std::runtime_error("cannot write to standard output");
    return;
  }
  replace_file(path, [&](const std::string& fresh) {
    errno = 0;
    std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
    if (out) write(out);
    out.close();
    if (out) return;
    throw std::runtime_error(fmt::format("cannot write {}: {}", path, strerror(errno)));
  });
}

void append_output(const std::string& path, const std::function<void(std::ostream&)>& write) {
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::app);
  if (out) write(out);
  out.close();
  if (!out) throw std::runtime_error(fmt::format("cannot write {}: {}", path, strerror(errno)));
}

}  // namespace gpupeak::tools
