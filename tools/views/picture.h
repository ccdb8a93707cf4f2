// Pictures as PNG, through librsvg's command: linking librsvg would triple the size of an
// installation.
#pragma once

#include <functional>
#include <ostream>
#include <string>

namespace gpupeak::tools {

/// Has `rsvg-convert` turn the SVG that `svg` writes into a PNG. Throws std::runtime_error, which
/// says what to install if the command is missing.
void write_png(const std::string& path, const std::function<void(std::ostream&)>& svg);

}  // namespace gpupeak::tools
