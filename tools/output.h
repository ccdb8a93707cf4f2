// Where a verb's result goes: standard output or a file.
#pragma once

#include <functional>
#include <ostream>
#include <string>

namespace gpupeak::tools {

/// To `path`, or to standard output for an empty one. A file is written whole or not at all: a full
/// disk leaves no half of it behind under its name. What is no file (/dev/null, a pipe) is written
/// to as it is. Throws std::runtime_error.
void write_output(const std::string& path, const std::function<void(std::ostream&)>& write);

/// Behind what is in the file, as a CI's step summaries are written. Throws std::runtime_error.
void append_output(const std::string& path, const std::function<void(std::ostream&)>& write);

/// As write_output, for what writes a file by its name itself.
void replace_file(const std::string& path,
                  const std::function<void(const std::string& fresh)>& write);

}  // namespace gpupeak::tools
