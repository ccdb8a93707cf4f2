// What `run` tells the user on standard error, which is the program's as well. If standard error is
// closed, full, or has no reader any more, nothing is said, and the run goes on.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace gpupeak::tools {

/// Writes the text as it is. Never throws. Raises SIGPIPE unless that is ignored.
void say_text(std::string_view text);

/// Writes a line "gpupeak: …".
template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_text("gpupeak: " + fmt::format(format, std::forward<Args>(args)...) + "\n");
}

/// Opens /dev/null as each of the descriptors 0, 1 and 2 that is closed, in this process alone.
/// Else the next file that we open would get such a number, and output would go into it.
void occupy_standard_descriptors();

}  // namespace gpupeak::tools
