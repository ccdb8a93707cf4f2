// Where a verb's result goes: standard output or a file, and what may be overwritten.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace gpupeak::tools {

/// An empty path, or "-".
bool is_standard_output(const std::string& path);
/// Of standard output, or -1: what is written to a file is written as for none.
int output_descriptor(const std::string& path);

/// What a verb may put a new file in the place of, besides what is neither a log nor an input.
enum class Replaces { kNoLogs, kPackedLogs };

/// To be called before anything is read. Throws UsageError if `path` is a folder, one of the
/// inputs, or a log: nobody means to write a report over those.
void require_output(const std::string& path, const std::vector<std::string>& inputs,
                    Replaces replaces = Replaces::kNoLogs);

/// To `path`, or to standard output. A file is written whole or not at all: a full disk leaves no
/// half of it behind under its name. What is no file (/dev/null, a pipe) is written to as it is.
/// Throws std::runtime_error.
void write_output(const std::string& path, const std::function<void(std::ostream&)>& write);

/// That a file was written, where somebody waits for it at a terminal.
void say_written(const std::string& path);

/// Behind what is in the file, as a CI's step summaries are written. Throws std::runtime_error.
void append_output(const std::string& path, const std::function<void(std::ostream&)>& write);

/// As write_output, for what writes a file by its name itself: `fresh` does not exist.
void replace_file(const std::string& path,
                  const std::function<void(const std::string& fresh)>& write);

}  // namespace gpupeak::tools
