// In place of screen.cc in a build without ncurses.
#include <stdexcept>

#include "tools/top/top.h"

namespace gpupeak::tools {

TopScreen::TopScreen() {
  throw std::runtime_error(
      "the live screen is not in this build: it needs ncurses. On Debian or Ubuntu: apt-get "
      "install "
      "libncurses-dev, then build gpupeak from its source; --once prints one frame");
}
TopScreen::~TopScreen() = default;
int TopScreen::columns() const {
  return 0;
}
size_t TopScreen::rows() const {
  return 0;
}
void TopScreen::draw(const TopLines& /*lines*/, size_t /*first*/, const TopFooter& /*footer*/) {}
TopInput TopScreen::wait(int /*milliseconds*/) {
  return {};
}

}  // namespace gpupeak::tools
