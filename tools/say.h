// What `run` tells the user, on standard error. That belongs to the program first: if it is closed,
// full, or has no reader any more, nothing is said and nothing else changes.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace gpupeak::tools {

/// As it is. Never throws; raises no SIGPIPE once it is ignored.
void say_text(std::string_view text);

/// A line of ours: "gpupeak: …".
template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_text("gpupeak: " + fmt::format(format, std::forward<Args>(args)...) + "\n");
}

/// Where 0, 1 or 2 is closed a file of ours would get its number, and the program's output would go
/// there: /dev/null takes the place, in this process alone.
void occupy_standard_descriptors();

}  // namespace gpupeak::tools
