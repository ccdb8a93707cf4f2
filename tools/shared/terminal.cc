#include "tools/shared/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace gpupeak::tools {
namespace {

constexpr std::chrono::milliseconds kPatience{1000}, kRedraw{50};
constexpr int kNarrowest = 60, kWidest = 200;

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

}  // namespace gpupeak::tools
