#include "tools/shared/output.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "collector/files/fresh_file.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"

namespace gpupeak::tools {
namespace {

constexpr std::chrono::milliseconds kPatience{1000}, kRedraw{50};
constexpr int kNarrowest = 60, kWidest = 200;

namespace fs = std::filesystem;

/// Whether `path` must not be replaced by a new file: it is a device, a pipe, or a descriptor of
/// ours (/dev/stdout, even if that is a file).
bool is_special(const std::string& path) {
  if (path.starts_with("/proc/")) return true;
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

bool same_file(const struct stat& a, const std::string& other) {
  struct stat b {};
  return stat(other.c_str(), &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// The first bytes of a regular file; 0 if there are fewer.
uint64_t first_bytes(const std::string& path) {
  uint64_t bytes = 0;
  std::ifstream file(path, std::ios::binary);
  return file.read(reinterpret_cast<char*>(&bytes), sizeof bytes) ? bytes : 0;
}

/// Appends to `to`, which is no regular file, in place of replacing it.
void copy_into(const std::string& from, const std::string& to) {
  collector::append_to(to, [&from](std::ostream& out) {
    std::ifstream in(from, std::ios::binary);
    if (in.peek() != std::ifstream::traits_type::eof()) out << in.rdbuf();
  });
}

/// Has `write` make a file in a temporary folder, and copies its content to `path`.
void write_through(const std::string& path, const std::function<void(const std::string&)>& write) {
  std::string folder = (fs::temp_directory_path() / "gpupeak-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) collector::cannot_write(folder);
  try {
    const std::string fresh = folder + "/output";
    write(fresh);
    copy_into(fresh, path);
  } catch (...) {
    fs::remove_all(folder);
    throw;
  }
  fs::remove_all(folder);
}

}  // namespace

collector::TextStyle style_for(int fd, const TextOptions& options) {
  collector::TextStyle style;
  style.bytes = options.bytes;
  const bool terminal = isatty(fd) != 0;
  const char* no_color = getenv("NO_COLOR");
  style.color = options.color == "always" ||
                (options.color == "auto" && terminal && (no_color == nullptr || *no_color == 0));
  winsize size{};
  // The user's width comes before the terminal's.
  const char* columns = getenv("COLUMNS");
  if (const int said = columns != nullptr ? atoi(columns) : 0; said > 0) {
    style.width = std::clamp(said, kNarrowest, kWidest);
  } else if (terminal && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.width = std::clamp<int>(size.ws_col, kNarrowest, kWidest);
  } else if (!terminal) {
    style.whole_lines = true;  // somebody reads them with grep
  }
  return style;
}

collector::ViewStyle view_style(const OutputOptions& options) {
  using Form = collector::ViewStyle::Form;
  return {style_for(output_descriptor(options.out), options.text), options.json  ? Form::kJson
                                                                   : options.csv ? Form::kCsv
                                                                                 : Form::kText};
}

collector::Progress ProgressBar::callback() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [this](uint64_t done, uint64_t total) {
    // Short waits show nothing. Drawing every few milliseconds would cost more than it tells.
    const auto now = std::chrono::steady_clock::now();
    if (now - began_ < kPatience || (shown_ && now - drawn_ < kRedraw)) return;
    drawn_ = now;
    if (total == 0) return;
    constexpr int kCells = 40;
    const int cells =
        static_cast<int>(kCells * static_cast<double>(done) / static_cast<double>(total));
    fmt::print(stderr, "\r{} [{:<{}}] {:3.0f} %", what_,
               std::string(static_cast<size_t>(cells), '#'), kCells,
               100.0 * static_cast<double>(done) / static_cast<double>(total));
    shown_ = true;
  };
}

void ProgressBar::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

std::string expand_host(const std::string& out) {
  std::string text;
  for (size_t i = 0; i < out.size(); ++i) {
    const char next = out[i] == '%' && i + 1 < out.size() ? out[i + 1] : '\0';
    if (next != 'h' && next != '%') {
      text += out[i];
      continue;
    }
    ++i;
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    text += next == 'h' ? host : "%";
  }
  return text;
}

void require_output(const std::string& path, const std::vector<std::string>& inputs,
                    Replaces replaces) {
  struct stat status {};
  if (is_standard_output(path) || stat(path.c_str(), &status) != 0) return;
  const std::string name = collector::escape(path);
  if (S_ISDIR(status.st_mode))
    throw collector::UsageError("{} is a folder: name a file to write", name);
  if (!S_ISREG(status.st_mode)) return;
  for (const std::string& input : inputs) {
    if (!input.empty() && same_file(status, input)) {
      throw collector::UsageError("{} is what is read: name another file to write", name);
    }
  }
  const uint64_t first = first_bytes(path);
  const auto magic = static_cast<uint32_t>(first);
  const bool packed = magic == ZSTD_MAGICNUMBER || magic == GPUPEAK_PACKED_MAGIC;
  if (first == GPUPEAK_LOG_MAGIC || (packed && replaces != Replaces::kPackedLogs)) {
    throw collector::UsageError("{} is a log, which is not overwritten: name another file to write",
                                name);
  }
}

void replace_file(const std::string& path,
                  const std::function<void(const std::string& fresh)>& write) {
  const std::string target = collector::followed(path);
  if (is_special(target)) return write_through(target, write);
  collector::write_fresh_by_name(target, write);
}

void write_output(const std::string& path, const std::function<void(std::ostream&)>& write,
                  unsigned mode) {
  if (is_standard_output(path)) {
    signal(SIGPIPE, SIG_DFL);  // `gpupeak export events … | head` ends quietly
    write(std::cout);
    std::cout.flush();
    if (!std::cout) throw std::runtime_error("cannot write to standard output");
    return;
  }
  const std::string target = collector::followed(path);
  if (is_special(target)) return collector::append_to(target, write);
  collector::write_fresh(target, write, mode);
}

void say_written(const std::string& path) {
  if (is_standard_output(path) || isatty(STDERR_FILENO) == 0) return;
  say_text("\r\033[K");  // removes a progress bar that may still be there
  say("wrote {}", collector::escape(path));
}

}  // namespace gpupeak::tools
