#include "tools/views/picture.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>

#include "tools/shared/child.h"
#include "tools/shared/output.h"

namespace gpupeak::tools {
namespace {

/// Runs a command. Returns its exit code; -1 if there is no such command.
int run(const std::array<const char*, 6>& words) {
  pid_t child = 0;
  std::array<char*, 6> arguments{};
  for (size_t i = 0; i < words.size(); ++i) arguments[i] = const_cast<char*>(words[i]);
  const int error = posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ);
  if (error == ENOENT) return -1;
  if (error != 0) throw std::runtime_error(fmt::format("cannot run {}", words[0]));
  const std::optional<int> status = wait_for_child(child);
  return status && WIFEXITED(*status) ? WEXITSTATUS(*status) : 1;
}

}  // namespace

void write_png(const std::string& path, const std::function<void(std::ostream&)>& svg) {
  replace_file(path, [&](const std::string& fresh) {
    const std::string drawing = fresh + ".svg";
    write_output(drawing, svg);
    const int code =
        run({"rsvg-convert", "--zoom=2", "--output", fresh.c_str(), drawing.c_str(), nullptr});
    unlink(drawing.c_str());
    if (code == -1) {
      throw std::runtime_error(
          "--png needs the command rsvg-convert (Debian: apt-get install librsvg2-bin); --svg "
          "needs nothing");
    }
    if (code != 0) throw std::runtime_error(fmt::format("cannot write {}", path));
  });
}

}  // namespace gpupeak::tools
